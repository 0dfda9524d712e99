package plan

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// Layout is where slots and placed tenants are.
type Layout struct {
	// Slots is the partition of each slot.
	Slots []int32
	// Placements is the partitions of each placed tenant; more than one is a spread.
	Placements map[string][]int32
}

// ModuloLayout lays slots out as a table without overrides does: shared[slot mod len(shared)].
func ModuloLayout(slots int32, shared []int32) Layout {
	l := Layout{Slots: make([]int32, slots), Placements: map[string][]int32{}}
	for s := range l.Slots {
		l.Slots[s] = shared[s%len(shared)]
	}
	return l
}

// LayoutOf is the layout of a table's topic. A tenant that follows its slot by
// its own entry is not placed; one on another topic is, without partitions.
func LayoutOf(t *routing.Topic) Layout {
	l := Layout{Slots: make([]int32, t.Slots()), Placements: map[string][]int32{}}
	for s := range l.Slots {
		l.Slots[s] = t.SlotPartition(int32(s))
	}
	for _, tenant := range t.PlacedTenants() {
		if p, ok := t.Placement(tenant); ok && !p.FollowSlot {
			l.Placements[tenant] = p.Partitions
		}
	}
	return l
}

// Loads sums volumes by partition under the layout. A spread tenant counts in
// equal parts; a tenant placed on another topic (no partitions) counts nowhere.
func (l Layout) Loads(volumes []Volume, h routing.Hash, partitions int32) []float64 {
	loads := make([]float64, partitions)
	for _, v := range volumes {
		if to, placed := l.Placements[v.Tenant]; placed {
			for _, p := range to {
				loads[p] += v.Volume / float64(len(to))
			}
			continue
		}
		loads[l.Slots[slotOf(h, v.Tenant, int32(len(l.Slots)))]] += v.Volume
	}
	return loads
}

func slotOf(h routing.Hash, tenant string, slots int32) int32 {
	key := []byte(tenant)
	return h.Slot(h.Sum(key), slots)
}

// span is the partitions from … to−1.
func span(from, to int32) []int32 {
	var ps []int32
	for p := from; p < to; p++ {
		ps = append(ps, p)
	}
	return ps
}

// validate says whether the layout stays below partitions.
func (l Layout) validate(partitions int32) error {
	if len(l.Slots) == 0 {
		return fmt.Errorf("plan: the layout has no slots")
	}
	for s, p := range l.Slots {
		if p < 0 || p >= partitions {
			return fmt.Errorf("plan: slot %d is on partition %d, outside of 0 to %d", s, p, partitions-1)
		}
	}
	for _, tenant := range slices.Sorted(maps.Keys(l.Placements)) {
		for _, p := range l.Placements[tenant] {
			if p < 0 || p >= partitions {
				return fmt.Errorf("plan: tenant %q is on partition %d, outside of 0 to %d", tenant, p, partitions-1)
			}
		}
	}
	return nil
}

// split divides volumes into those of slots and those of partitions by placement.
func (l Layout) split(volumes []Volume, h routing.Hash, partitions int32) (slots, fixed []float64) {
	slots, fixed = make([]float64, len(l.Slots)), make([]float64, partitions)
	for _, v := range volumes {
		to, placed := l.Placements[v.Tenant]
		for _, p := range to {
			fixed[p] += v.Volume / float64(len(to))
		}
		if !placed {
			slots[slotOf(h, v.Tenant, int32(len(l.Slots)))] += v.Volume
		}
	}
	return slots, fixed
}
