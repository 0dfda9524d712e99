// Package plan works out tables before they are used: how many partitions a
// topic needs, which tenants to place by name, where each slot goes, and what
// growth moves. It is pure: volumes in, a plan out; who measures the volumes
// and who carries a plan out is not its matter.
//
// # Data flow
//
//	peak, p50, concurrency ────────────────────────────Size──▶ partitions, warnings
//	volumes (tenant, volume) ──┬─Whales──▶ WhalesPlan ─Edits─▶ routing.Table.Edit
//	layout (slots, placements) ┼─Growth──▶ keys and volume moved, by strategy
//	                           │    └─BalanceSlots──▶ slot moves ─Edits─▶ routing.Table.Edit
//	                           └─HashSkew──▶ hottest share
//
// # Guarantees
//
//   - The same input gives the same plan, whatever the order of its lines.
//   - Whales gives each tenant exactly one place, puts two pieces of a tenant
//     never on one partition, packs by LPT (largest first, within
//     4/3 − 1/(3m) of the best maximum), and divides a tenant only when it alone
//     keeps the plan from its target. When it misses the target it names the
//     tenant to blame.
//   - Growth and BalanceSlots move nothing that they do not list. Counting
//     slots, no plan reaches balance with fewer moves; by volume the answer
//     comes with a proven lower bound.
//   - Ring, Rendezvous, Jump and Modulo are plain key→node functions, here to be
//     compared; a table never uses them.
//
// # What it does not do
//
// It does not know which tenants are live: a plan for a topic with data is
// carried out by moves, never by swapping tables. A spread tenant is counted in
// equal parts, which holds when its keys are many.
//
// # What may be changed inside
//
// How the search of Whales and BalanceSlots goes, as long as the figures and
// properties of the tests hold. The ring's labels and the rendezvous rule are
// fixed: they reproduce published figures.
package plan
