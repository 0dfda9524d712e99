package lag

import (
	"cmp"
	"slices"
)

// skew follows how unevenly a pool's partitions, the members that hold them and
// the brokers that lead them are used, whatever their lag: it is what makes one
// of them hot the next time.
type skew struct {
	condition
	ratios [perCount][ofCount]float64
	worst  skewKind
	key    int32 // the partition, member or broker of the worst
	at     int64 // when it was computed last
	over   int64 // since when it is above the ratio; 0: it is not
}

// skewKind is what is uneven, per what.
type skewKind struct {
	per per
	of  of
}

type per uint8

const (
	perPartition per = iota
	perMember
	perBroker
	perCount
)

type of uint8

const (
	ofInflow of = iota
	ofHandled
	ofBytes
	ofCount
)

// String is the kind in words.
func (k skewKind) String() string {
	return [...]string{"records that come in", "records that are done", "bytes that come in"}[k.of] + " per " +
		[...]string{"partition", "member", "broker"}[k.per]
}

// most is the largest ratio per one thing.
func (k *skew) most(by per) float64 { return slices.Max(k.ratios[by][:]) }

// load is the rate of a partition, member or broker.
type load struct {
	key  int32
	rate float64
}

// followSkew computes the skew once a minute, and opens a ticket when it has
// been above 3 for ten minutes. A pool that takes less than min_lag records in
// ten minutes has none. A move of tenants suspends it.
func (t *Tracker) followSkew(p *pool) {
	k := &p.skew
	if p.moving() {
		k.at = t.now // neither for nor against
		return
	}
	if len(p.members) < 2 || t.now-k.at < skewEvery.Milliseconds() || 2*p.unknown >= len(p.members) {
		return
	}
	dt := min(t.now-k.at, 2*skewEvery.Milliseconds())
	k.at = t.now
	largest := t.measureSkew(p)
	if largest <= skewRatio {
		k.over = 0
		k.settle(true, dt, t.rule.KeepFiring)
		return
	}
	if k.over == 0 {
		k.over = t.now
	}
	if millis(t.now-k.over) >= skewAfter {
		k.fire(k.over)
	}
}

// measureSkew computes every ratio, and which is the largest.
func (t *Tracker) measureSkew(p *pool) (largest float64) {
	k := &p.skew
	for by := range perCount {
		for what := range ofCount {
			ratio, key := t.skewOf(p, by, what)
			k.ratios[by][what] = ratio
			if ratio > largest {
				largest, k.worst, k.key = ratio, skewKind{by, what}, key
			}
		}
	}
	return largest
}

// moving is true while a move changes what the pool's partitions take.
func (p *pool) moving() bool {
	return slices.ContainsFunc(p.members, func(m *partition) bool { return m.cur.Moving })
}

// concerned are the partitions that the worst skew is about, ascending.
func (p *pool) concerned(yield func(id int32) bool) {
	for _, m := range p.members {
		if m.skewKey(p.skew.worst.per) == p.skew.key && !yield(m.id) {
			return
		}
	}
}

// skewKey is what a partition counts for; for members and brokers 0 is unknown.
func (p *partition) skewKey(by per) int32 {
	switch by {
	case perMember:
		return p.cur.Owner
	case perBroker:
		return p.cur.Leader
	case perPartition, perCount:
	}
	return p.id
}

func (p *partition) skewRate(what of) float64 {
	in, out := p.track.rates()
	switch what {
	case ofInflow:
		return max(in, 0)
	case ofHandled:
		return max(out, 0)
	case ofBytes, ofCount:
	}
	return max(p.cur.ByteRate, 0)
}

// bytesFloor is what a record of min_lag counts in bytes: too few make no skew.
const bytesFloor = 100

// skewOf is the largest rate over the lower median, and whose it is; 0 when
// the largest is hardly any, or there are no two to compare.
func (t *Tracker) skewOf(p *pool, by per, what of) (ratio float64, key int32) {
	t.loads = t.loads[:0]
	for _, m := range p.members {
		if m.measured {
			t.addLoad(by, m.skewKey(by), m.skewRate(what))
		}
	}
	least := max(float64(t.rule.MinLag), 1)
	if what == ofBytes {
		least *= bytesFloor
	}
	slices.SortFunc(t.loads, func(a, b load) int { return cmp.Or(cmp.Compare(a.rate, b.rate), cmp.Compare(b.key, a.key)) })
	n := len(t.loads)
	if n < 2 || t.loads[n-1].rate*skewAfter.Seconds() < least {
		return 0, 0
	}
	// A median of nothing at all counts as one record in the ten minutes.
	return t.loads[n-1].rate / max(t.loads[lowerMedian(n)].rate, 1/skewAfter.Seconds()), t.loads[n-1].key
}

// addLoad adds a partition's rate to what it counts for.
func (t *Tracker) addLoad(by per, key int32, rate float64) {
	if by != perPartition {
		if key == 0 {
			return
		}
		for i := range t.loads {
			if t.loads[i].key == key {
				t.loads[i].rate += rate
				return
			}
		}
	}
	t.loads = append(t.loads, load{key, rate})
}
