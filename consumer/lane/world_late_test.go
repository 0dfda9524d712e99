package lane_test

import "github.com/tenantlane/tenantlane/consumer/lane"

// letters are records of late lanes on their way to where they are given up.
type letters struct {
	pass lane.Pass[int64]
	offs []int64
	next int64
}

// giveUp takes some records of a partition's late lanes, or finishes those that
// were taken.
func (w *world) giveUp(p *part) {
	s := w.life.s
	if l := p.letters; l != nil {
		for _, off := range l.offs {
			if !p.log.recs[off].gone { // its lane has gone on without it
				w.given(p, off)
			}
		}
		s.PassedLate(&l.pass, l.next)
		p.letters = nil
		return
	}
	most := int64(3 + w.rnd.Intn(30))
	if w.calm {
		most = 1 << 40 // those that are late already go on
	}
	for _, l := range s.MarkLate(p.p, p.t.Next(), p.base.Frontier, most, nil) {
		k := w.keyOf(l.Key)
		if st, _ := s.Lane(p.p, l.Key); st.Parked || st.Held || st.Gate != nil || l.Until <= st.FirstSkip || w.keys[k].tenant != w.keyOwner(l.Tenant) {
			w.failf("partition %d key %d is late: %+v, %+v", p.id, k, l, st)
		}
	}
	from, ok := s.LateFrom(p.p, func(it *lane.Item[int64]) { delete(p.inMemory, it.Offset) })
	if !ok {
		return
	}
	l := &letters{pass: s.BeginLate(p.p, from), next: min(from+1+int64(w.rnd.Intn(12)), p.t.Next())}
	for off := max(from, p.log.start); off < l.next; off++ {
		r := p.log.recs[off]
		if r.kind != data || r.gone {
			continue
		}
		id := w.id(r.key)
		if w.rnd.Intn(20) == 0 {
			s.SpareLate(&l.pass, &id, off)
		}
		if s.TakeLate(&l.pass, &id, off) {
			l.offs = append(l.offs, off)
		}
	}
	p.letters = l
}

func (w *world) keyOwner(name []byte) int {
	for _, k := range w.keys {
		if string(k.owner) == string(name) {
			return k.tenant
		}
	}
	return -1
}

// given is a record that a late lane has given up.
func (w *world) given(p *part, off int64) {
	r := &p.log.recs[off]
	if w.claims(p.base, p.log, off) || p.inMemory[off] {
		w.failf("partition %d offset %d was given up although it was done, or in memory", p.id, off)
	}
	if at, waits := p.gates[r.key]; waits && off >= at {
		w.failf("partition %d offset %d was given up behind the gate at %d", p.id, off, at)
	}
	if !w.keys[r.key].unordered {
		if first := p.log.first(r.key); first < off && !r.handled || p.last[r.key] >= off+1 {
			w.failf("partition %d key %d: offset %d was given up before %d and after %d", p.id, r.key, off, first, p.last[r.key]-1)
		}
		p.last[r.key] = off + 1
	}
	r.handled = true
}
