package plan

import (
	"cmp"
	"slices"
)

// SlotMove is one slot that changes its partition.
type SlotMove struct {
	Slot, From, To int32
	// Volume in the slot; 1 when slots are counted.
	Volume float64
}

// BalanceConfig says what BalanceSlots starts from.
type BalanceConfig struct {
	// Slots is the partition of each slot now.
	Slots []int32
	// Into are the partitions that may hold slots, ascending, at least one;
	// slots elsewhere must move.
	Into []int32
	// Volumes is the volume of each slot; nil counts slots instead.
	Volumes []float64
	// Fixed is the volume of each partition that no slot move changes
	// (placements); nil for none.
	Fixed []float64
	// Tolerance is the max/mean that counts as balanced, by volume. Default 1.02.
	Tolerance float64
}

// Balanced is the answer of BalanceSlots.
type Balanced struct {
	// Moves in slot order; every slot that is not listed stays.
	Moves []SlotMove
	// AtLeast is a proven lower bound of how many moves balance needs. By
	// count Moves always has exactly that many.
	AtLeast int
	// Loads are the volumes (or slot counts) afterwards of the partitions of Into.
	Loads []float64
	// Skew of Loads.
	Skew Skew
}

// BalanceSlots lists the slot moves that reach balance with the fewest moves.
//
// Counting slots, each partition ends with ⌊n/k⌋ or ⌈n/k⌉ and the number of
// moves is the least possible. By volume, a partition is balanced at or below
// tolerance × max(mean, its largest slot, its fixed volume), since nothing
// gets a partition below what cannot be divided; the moves go from the
// partition furthest above to the emptiest, each time the smallest slot that
// suffices or else the largest that fits. Where slots are too coarse for the
// tolerance it stops when no move lowers the fuller of the two.
func BalanceSlots(c BalanceConfig) Balanced {
	if c.Tolerance == 0 {
		c.Tolerance = 1.02
	}
	if c.Volumes == nil {
		return balanceCounts(c)
	}
	return newLeveler(c).run()
}

// balanceCounts gives the partitions that have most now the larger share, so
// that as many slots as possible stay.
func balanceCounts(c BalanceConfig) Balanced {
	have := map[int32]int{}
	for _, p := range c.Slots {
		have[p]++
	}
	fullest := slices.Clone(c.Into)
	slices.SortStableFunc(fullest, func(a, b int32) int { return cmp.Compare(have[b], have[a]) })
	room := map[int32]int{}
	for i, p := range fullest {
		room[p] = len(c.Slots) / len(c.Into)
		if i < len(c.Slots)%len(c.Into) {
			room[p]++
		}
	}
	after := slices.Clone(c.Slots)
	var homeless []int
	for s, p := range c.Slots {
		if room[p] == 0 {
			homeless = append(homeless, s)
			continue
		}
		room[p]--
	}
	into := 0
	for _, s := range homeless {
		for room[c.Into[into]] == 0 {
			into++
		}
		after[s] = c.Into[into]
		room[c.Into[into]]--
	}
	return c.balanced(after, len(homeless))
}

func (c BalanceConfig) balanced(after []int32, atLeast int) Balanced {
	b := Balanced{AtLeast: atLeast, Moves: []SlotMove{}}
	loads := map[int32]float64{}
	for s, p := range after {
		loads[p] += c.volume(s)
		if from := c.Slots[s]; from != p {
			b.Moves = append(b.Moves, SlotMove{int32(s), from, p, c.volume(s)})
		}
	}
	for _, p := range c.Into {
		b.Loads = append(b.Loads, loads[p]+c.fixed(p))
	}
	b.Skew = SkewOf(b.Loads)
	return b
}

func (c BalanceConfig) volume(slot int) float64 {
	if c.Volumes == nil {
		return 1
	}
	return c.Volumes[slot]
}

func (c BalanceConfig) fixed(p int32) float64 {
	if int(p) < len(c.Fixed) {
		return c.Fixed[p]
	}
	return 0
}
