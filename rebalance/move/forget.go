package move

import "github.com/tenantlane/tenantlane/partitioner/routing"

// Forgettable tells whether a switched move may be taken out of the table:
//
//   - the logs of its old homes start above the fences, so that no record is
//     left there that the unit's lanes must wait for (R2), and
//   - it passed over no session. Those that acknowledged it had nothing on its
//     way to the old home. One that was passed over may have been stopped, and
//     write there when it wakes up days later: only the move tells workers that
//     this is stale (R1), and the producer that it must be sent again.
//
// start gives a partition's first offset, if it is known.
func Forgettable(m *routing.Move, start func(partition int32) (int64, bool)) bool {
	if m.Open() || len(m.Over) > 0 {
		return false
	}
	for _, f := range m.Fences {
		if first, ok := start(f.Partition); !ok || first <= f.Offset {
			return false
		}
	}
	return true
}

// Elsewhere tells whether the fences of a switched move are not in the logs that
// its old homes have now: each of these ends at its fence or below. The topic was
// deleted and made again, so nothing of before is left, nor on its way.
//
// end gives a partition's high watermark, if it is known.
func Elsewhere(m *routing.Move, end func(partition int32) (int64, bool)) bool {
	if m.Open() {
		return false
	}
	for _, f := range m.Fences {
		if next, ok := end(f.Partition); !ok || next > f.Offset {
			return false
		}
	}
	return len(m.Fences) > 0
}
