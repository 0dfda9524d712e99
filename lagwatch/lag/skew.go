package lag

import "slices"

// skew follows how unevenly a pool's partitions are used, whatever their lag:
// it is what makes one of them hot the next time.
type skew struct {
	condition
	inflow, handled float64
	worst           int32 // partition with the largest rate over the median
	at              int64 // when it was computed last
	over            int64 // since when it is above the ratio; 0: it is not
}

// followSkew computes the skew once a minute, and opens a ticket when it has
// been above 3 for ten minutes. A pool that takes less than min_lag records in
// ten minutes has none.
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
	var most int32
	k.inflow, most = t.rateSkew(p, func(m *partition) float64 { in, _ := m.track.rates(); return in })
	k.worst = most
	if k.handled, most = t.rateSkew(p, func(m *partition) float64 { _, out := m.track.rates(); return out }); k.handled > k.inflow {
		k.worst = most
	}
	if max(k.inflow, k.handled) <= skewRatio {
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

// moving is true while a move changes what the pool's partitions take.
func (p *pool) moving() bool {
	return slices.ContainsFunc(p.members, func(m *partition) bool { return m.cur.Moving })
}

// rateSkew is the largest rate over the lower median, and whose it is; 0 when
// the largest is hardly any.
func (t *Tracker) rateSkew(p *pool, rate func(*partition) float64) (ratio float64, most int32) {
	t.rates = t.rates[:0]
	largest := 0.0
	for _, m := range p.members {
		if !m.measured {
			continue
		}
		r := max(rate(m), 0)
		t.rates = append(t.rates, r)
		if r > largest {
			largest, most = r, m.id
		}
	}
	if len(t.rates) == 0 || largest*skewAfter.Seconds() < float64(max(t.rule.MinLag, 1)) {
		return 0, most
	}
	slices.Sort(t.rates)
	median := t.rates[lowerMedian(len(t.rates))]
	// A median of nothing at all counts as one record in the ten minutes.
	return largest / max(median, 1/skewAfter.Seconds()), most
}
