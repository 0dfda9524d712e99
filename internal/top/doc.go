// Package top draws what a cluster's tenants, partitions and alerts are doing
// now, on a terminal, and goes on drawing as it changes. `tenantlane top` and
// the live view of the demo are this one screen.
//
//	lagwatch.Evaluation ─┐
//	tenants at workers ──┼─▶ Snapshot ──▶ Render(Snapshot, View) ──▶ text ──▶ Run's screen
//	lines of a story ────┘                        ▲
//	                                   keys ──▶ View: which pool, which order
//
// # Guarantees
//
//   - Render is pure: the same snapshot and view give the same text, no line is
//     wider than the view and there are no more lines than it has.
//   - What was not seen is drawn as unknown, never as zero.
//   - A tenant's name cannot move the cursor or change colors: a name that is
//     not printable text is drawn in hexadecimal.
//
// # What it does not do
//
// It asks nobody: its callers fill snapshots. It decides nothing about lag.
//
// # What may change inside
//
// All that is drawn, and where.
package top
