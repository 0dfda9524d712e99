package plan

import (
	"cmp"
	"slices"
)

// leveler moves slots by volume until each partition is balanced.
type leveler struct {
	c     BalanceConfig
	after []int32
	held  map[int32][]int // slots of each partition, in the order they came
	loads map[int32]float64
	mean  float64
	stuck map[int32]bool
}

func newLeveler(c BalanceConfig) *leveler {
	l := &leveler{c: c, after: slices.Clone(c.Slots), held: map[int32][]int{}, loads: map[int32]float64{}, stuck: map[int32]bool{}}
	var sum float64
	for _, p := range c.Into {
		l.loads[p] = c.fixed(p)
		sum += l.loads[p]
	}
	for s, p := range c.Slots {
		sum += c.Volumes[s]
		l.loads[p] += c.Volumes[s]
		l.held[p] = append(l.held[p], s)
	}
	l.mean = sum / float64(len(c.Into))
	return l
}

func (l *leveler) run() Balanced {
	atLeast := l.atLeast()
	l.evict()
	for {
		p, ok := l.worst()
		if !ok {
			return l.c.balanced(l.after, atLeast)
		}
		q := l.emptiest()
		i := l.choose(p, q)
		if i < 0 {
			l.stuck[p] = true
			continue
		}
		l.move(p, q, i)
	}
}

// limit is up to where a partition counts as balanced whose largest slot is that large.
func (l *leveler) limit(p int32, largest float64) float64 {
	return l.c.Tolerance * max(l.mean, largest, l.c.fixed(p))
}

func (l *leveler) largest(p int32) float64 {
	top := 0.0
	for _, s := range l.held[p] {
		top = max(top, l.c.Volumes[s])
	}
	return top
}

// evict empties the partitions that may hold no slot any more, largest slots first.
func (l *leveler) evict() {
	for _, p := range distinct(l.c.Slots) {
		if l.into(p) {
			continue
		}
		slices.SortStableFunc(l.held[p], func(a, b int) int { return cmp.Compare(l.c.Volumes[a], l.c.Volumes[b]) })
		for len(l.held[p]) > 0 {
			l.move(p, l.emptiest(), len(l.held[p])-1)
		}
	}
}

func (l *leveler) into(p int32) bool {
	_, ok := slices.BinarySearch(l.c.Into, p)
	return ok
}

// worst is the partition furthest above its limit that a move can still help.
func (l *leveler) worst() (int32, bool) {
	best, most := int32(0), 0.0
	for _, p := range l.c.Into {
		if l.stuck[p] || l.loads[p] <= l.c.Tolerance*l.mean {
			continue
		}
		if over := l.loads[p] - l.limit(p, l.largest(p)); over > most {
			best, most = p, over
		}
	}
	return best, most > 0
}

func (l *leveler) emptiest() int32 {
	best := l.c.Into[0]
	for _, p := range l.c.Into {
		if l.loads[p] < l.loads[best] {
			best = p
		}
	}
	return best
}

// choose picks the slot of p to move to q, as an index into held[p]: the
// smallest that suffices, else the largest that fits, else the one that lowers
// the fuller of the two the most; −1 when none lowers it.
func (l *leveler) choose(p, q int32) int {
	enough, fits, lowers := -1, -1, -1
	volume := func(i int) float64 { return l.c.Volumes[l.held[p][i]] }
	over, top := l.loads[p]-l.limit(p, l.largest(p)), l.loads[p]
	for i := range l.held[p] {
		v := volume(i)
		if v == 0 {
			continue
		}
		if l.loads[q]+v <= l.limit(q, v) {
			if fits < 0 || v > volume(fits) {
				fits = i
			}
			if v >= over && (enough < 0 || v < volume(enough)) {
				enough = i
			}
		}
		if t := max(l.loads[p]-v, l.loads[q]+v); t < top {
			lowers, top = i, t
		}
	}
	switch {
	case enough >= 0:
		return enough
	case fits >= 0:
		return fits
	}
	return lowers
}

func (l *leveler) move(p, q int32, i int) {
	s := l.held[p][i]
	l.held[p] = slices.Delete(l.held[p], i, i+1)
	l.held[q] = append(l.held[q], s)
	l.loads[p] -= l.c.Volumes[s]
	l.loads[q] += l.c.Volumes[s]
	l.after[s] = q
}

// atLeast sums, over the partitions above their limit, how many slots must
// leave at least: no plan moves fewer.
func (l *leveler) atLeast() int {
	n := 0
	for _, p := range distinct(l.c.Slots) {
		if !l.into(p) {
			n += len(l.held[p])
			continue
		}
		volumes := make([]float64, 0, len(l.held[p]))
		for _, s := range l.held[p] {
			volumes = append(volumes, l.c.Volumes[s])
		}
		slices.SortFunc(volumes, func(a, b float64) int { return cmp.Compare(b, a) })
		n += l.mustLeave(p, volumes)
	}
	return n
}

// mustLeave is the least number of slots that p must lose. For each slot that
// could be the largest to stay, all larger ones go, then the next largest ones
// until the rest is within the limit; below the mean the limit no longer
// depends on that slot.
func (l *leveler) mustLeave(p int32, volumes []float64) int {
	best, load := len(volumes), l.loads[p]
	for first, largest := range volumes {
		rest, n := load, first
		for _, v := range volumes[first+1:] {
			if rest <= l.limit(p, largest) {
				break
			}
			rest -= v
			n++
		}
		best = min(best, n)
		if largest <= l.mean {
			// Keeping this one no longer raises the limit: dropping it may be cheaper.
			return min(best, l.dropLargest(p, volumes[first:], load)+first)
		}
		load -= largest
	}
	return best
}

// dropLargest counts how many of the largest volumes go until the rest is
// within the limit that no slot raises.
func (l *leveler) dropLargest(p int32, volumes []float64, load float64) int {
	for n, v := range volumes {
		if load <= l.limit(p, 0) {
			return n
		}
		load -= v
	}
	return len(volumes)
}
