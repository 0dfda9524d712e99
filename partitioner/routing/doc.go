// Package routing decides which partition a tenant's records go to. It is
// pure: it reads no file, no clock and no network, and its tables never
// change once made, so they are shared by pointer and read without a lock.
//
// # Data flow
//
//	YAML ─Parse─▶ Spec ─NewTable─▶ Table ─Topic("orders")─▶ Topic ─Lookup(tenant, key)─▶ Route
//	  ▲                              │ ▲                      │
//	  └────────── Table.YAML ────────┘ └── Table.Edit(…) ─────┘   revision + 1, next epoch
//
// A lookup is
//
//	hash(tenant) ─▶ filter says "no entry" ─▶ slot = hash mod slots ─▶ one array read
//	             └▶ filter says "perhaps"  ─▶ placement of that tenant, or as above
//
// # Guarantees
//
//   - Each tenant has exactly one placement: its own entry if it has one, else
//     its slot's override, else shared[slot mod len(shared)].
//   - A Table is whole or not at all: NewTable and Parse refuse what would
//     route to a partition that the table does not name, and say where.
//   - The six hashes and their reduction to a slot give, bit for bit, what the
//     named clients give; a table whose slots are a multiple of the partition
//     count therefore routes like the client that filled the topic.
//   - Parse(Table.YAML()) is the same table. Tenants are byte strings: those
//     that are not text are written as !!binary.
//   - Lookup, Partition, Tier and Hash.Sum allocate nothing.
//
// # What it does not do
//
// It does not know whether a topic has data, which tenants are live, or what a
// move is waiting for; it only says whether one table may replace another once
// there is data (Table.MayReplace).
//
// # What may be changed inside
//
// The index (filter and cells), how a topic is compiled, and the YAML reader
// and writer can change without a neighbor noticing. The hashes, the slot
// rule, the header layouts and the record codec are on disk and on the wire:
// they only ever gain versions.
package routing
