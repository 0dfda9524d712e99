package move

import "github.com/tenantlane/tenantlane/partitioner/routing"

// Forgettable tells whether a switched move may be taken out of the table:
//
//   - the logs of its old homes start above the fences, so that no record is
//     left there that the unit's lanes must wait for (R2), and
//   - settled: every session that is registered has shown a lease of a table
//     since the switch, see routing.Lease.Revision. None has a record on its way
//     to the old home then. Without that, a producer that was stopped for days
//     may still write there, and only the move tells that its record is stale
//     (R1).
//
// So a move that passed over a producer stays for as long as that producer is
// registered. start gives a partition's first offset, if it is known.
func Forgettable(m *routing.Move, settled bool, start func(partition int32) (int64, bool)) bool {
	if m.Open() || !settled {
		return false
	}
	for _, f := range m.Fences {
		if first, ok := start(f.Partition); !ok || first <= f.Offset {
			return false
		}
	}
	return true
}
