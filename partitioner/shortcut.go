package partitioner

import (
	"math/bits"

	"github.com/cespare/xxhash/v2"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// shortcut answers for the usual tenant, one without an entry of its own, in
// one read: each slot's cell holds its partition and a small filter of the
// slot's tenants that have one. It exists because the rest of a lookup (another
// filter, a slot by remainder, a Route) would make this slower than kgo's own
// partitioners. It is compiled for each table, and only for topics that it
// serves well.
//
//	cell   63 ─ 16 filter, two bits for each tenant with an entry │ 15 ─ 0 partition
type shortcut struct {
	of    *routing.Table // that it is of; never the current one if it does not serve
	mask  uint64         // slots-1
	cells []uint64
}

// crowd is how many tenants with an entry a slot may have on average. Up to
// that, about one in fifty of the others passes the filter by accident.
const crowd = 3

func newShortcut(table *routing.Table, t *routing.Topic) shortcut {
	slots, placed := int(t.Slots()), t.PlacedTenants()
	if t.Hash() != routing.XXHash64 || bits.OnesCount(uint(slots)) != 1 || len(placed) > crowd*slots {
		return noShortcut()
	}
	s := shortcut{of: table, mask: uint64(slots - 1), cells: make([]uint64, slots)}
	for slot := range s.cells {
		s.cells[slot] = uint64(t.SlotPartition(int32(slot)))
	}
	for _, tenant := range placed {
		sum := xxhash.Sum64String(tenant)
		s.cells[sum&s.mask] |= filterBits(sum)
	}
	return s
}

func noShortcut() shortcut { return shortcut{of: new(routing.Table)} }

// filterBits are two of the upper 48, by parts of the hash that its slot leaves.
func filterBits(sum uint64) uint64 { return 1<<16<<(sum>>59) | 1<<32<<(sum>>54&31) }

// PartitionByBackup is called by kgo in place of Partition. It is short for the
// usual record of a client without a Producer; each test here costs a tenth of
// what it may cost in all.
func (t byBackup) PartitionByBackup(r *kgo.Record, n int, backup kgo.TopicBackupIter) int {
	if s := &t.short; t.current.Load() == s.of && len(r.Key) > 0 && !t.producer.Load() {
		sum := xxhash.Sum64(r.Key)
		cell, tenant := s.cells[sum&s.mask], filterBits(sum)
		if pick := int(cell & 0xffff); cell&tenant != tenant && pick < n {
			return pick
		}
	}
	return t.otherwise(r, n, backup)
}
