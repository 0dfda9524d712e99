package lane_test

import (
	"maps"
	"slices"
	"time"

	"github.com/tenantlane/tenantlane/consumer/lane"
	"github.com/tenantlane/tenantlane/consumer/offset"
)

// step does one thing, chosen at random.
func (w *world) step() {
	switch n := w.rnd.Intn(100); {
	case n < 14:
		w.produce()
	case n < 32:
		w.poll(w.anyPart())
	case n < 48:
		w.take()
	case n < 51:
		w.report()
	case n < 70:
		w.release(w.rnd.Intn(100) < 30)
	case n < 80:
		w.reread(w.anyPart())
	case n < 82:
		w.giveUp(w.anyPart())
	case n < 86:
		w.commit(w.anyPart(), w.rnd.Intn(8) > 0)
	case n < 88:
		w.acknowledge()
	case n < 91:
		w.now += time.Duration(w.rnd.Intn(40)) * time.Millisecond
	case n < 97:
		w.operate()
	case n < 99:
		w.reassign()
	default:
		if w.rnd.Intn(2) == 0 {
			w.crash()
		} else {
			w.forget()
		}
	}
}

func (w *world) anyPart() *part { return w.life.parts[w.rnd.Intn(len(w.life.parts))] }

func (w *world) produce() {
	log := w.logs[w.rnd.Intn(len(w.logs))]
	for range 1 + w.rnd.Intn(6) {
		off := int64(len(log.recs))
		r := record{kind: data, key: w.rnd.Intn(len(w.keys))}
		if w.rnd.Intn(3) == 0 {
			r.key = 0 // a whale
		}
		if w.rnd.Intn(12) == 0 {
			r.kind = kind(w.rnd.Intn(2))
		}
		if r.kind == data {
			log.byKey[r.key] = append(log.byKey[r.key], off)
		}
		log.recs = append(log.recs, r)
	}
}

// poll admits a batch under the main cursor.
func (w *world) poll(p *part) {
	if w.life.s.Records() >= w.bound {
		return
	}
	next := p.t.Next()
	end := min(int64(len(p.log.recs)), next+1+int64(w.rnd.Intn(6)))
	for off := next; off < end; off++ {
		r := p.log.recs[off]
		if r.kind != data || r.gone {
			continue
		}
		id, name := w.id(r.key), w.keys[r.key].name
		if from, ok := p.t.Claim(name); ok {
			w.life.s.Skip(p.p, id, from, off)
			continue
		}
		switch w.rnd.Intn(60) {
		case 0:
			w.life.s.Skip(p.p, id, off, off) // it waits without buffering
			continue
		case 1:
			if !w.calm {
				w.life.s.Gate(p.p, &id, lane.Gate{Offset: off, Why: uint8(off % lane.Whys), Mark: uint64(off)})
				p.gateAt(r.key, off)
				continue
			}
		}
		if v := w.life.s.Push(p.p, id, lane.Item[int64]{Offset: off, Rec: off, Bytes: 10}); v == lane.Queued {
			p.inMemory[off] = true
		}
	}
	if !p.t.Admitted(end, 3) && end > next {
		w.failf("the tracker refused to go on from %d to %d", next, end)
	}
}

func (w *world) take() {
	if len(w.life.hand) > 6 {
		return
	}
	var b lane.Batch[int64]
	w.life.s.Take(w.now, 1+w.rnd.Intn(3), &b)
	for _, g := range b.Grants {
		h := inHand{g: g, part: w.life.parts[g.Partition().ID()]}
		if h.part.p != g.Partition() {
			w.failf("a grant of partition %d's epoch %d, which is over", g.Partition().ID(), g.Partition().Epoch())
			return
		}
		for _, it := range g.Items {
			h.offs = append(h.offs, it.Offset)
			if it.Rec != it.Offset || !h.part.inMemory[it.Offset] {
				w.failf("offset %d was granted without being in memory", it.Offset)
				return
			}
		}
		h.key = h.part.log.recs[h.offs[0]].key
		w.checkGrant(&h)
		w.life.hand = append(w.life.hand, h)
	}
}

// checkGrant holds a new grant to those in hand.
func (w *world) checkGrant(h *inHand) {
	k, same := w.keys[h.key], 0
	for _, o := range w.life.hand {
		if w.keys[o.key].tenant == k.tenant {
			same++
		}
		if o.key == h.key && o.part.id == h.part.id {
			if !k.unordered {
				w.failf("key %d of partition %d is in two hands", h.key, h.part.id)
			}
			for _, off := range h.offs {
				if o.part == h.part && slices.Contains(o.offs, off) {
					w.failf("offset %d is in two hands", off)
				}
			}
		}
	}
	if limit := w.cfg.TenantConcurrency; limit > 0 && same >= limit {
		w.failf("tenant %d has %d grants, may have %d", k.tenant, same+1, limit)
	}
	for i, off := range h.offs {
		if h.part.log.recs[off].key != h.key || i > 0 && off <= h.offs[i-1] {
			w.failf("a grant of key %d has offsets %v", h.key, h.offs)
		}
	}
}

// release ends a grant, with a failure or not.
func (w *world) release(fails bool) {
	if len(w.life.hand) == 0 {
		return
	}
	i := w.rnd.Intn(len(w.life.hand))
	h := w.life.hand[i]
	w.life.hand = slices.Delete(w.life.hand, i, i+1)
	r := lane.Result{Done: len(h.offs), Busy: time.Duration(w.rnd.Intn(3000)) * time.Microsecond}
	if fails && !w.calm {
		r.Done = h.reported + w.rnd.Intn(len(h.offs)-h.reported)
		r.Outcome = []lane.Outcome{lane.Continue, lane.Retry, lane.Retry, lane.Park, lane.Hold}[w.rnd.Intn(5)]
		r.Delay = time.Duration(w.rnd.Intn(30)) * time.Millisecond
	}
	live := !h.part.p.Revoked()
	for _, off := range h.offs[h.reported:r.Done] {
		w.handle(&h, off, live)
	}
	var ref lane.Ref[int64]
	if r.Done < len(h.offs) {
		ref = h.g.Ref(r.Done)
	}
	if got := w.life.s.Release(&h.g, r, w.now); got != live {
		w.failf("Release said %v for a grant whose partition's revocation is %v", got, !live)
	}
	if r.Outcome == lane.Hold && live {
		w.life.holds = append(w.life.holds, hold{h: h, ref: ref, off: h.offs[r.Done]})
	}
}

// report finishes some records of a grant that stays in hand.
func (w *world) report() {
	if len(w.life.hand) == 0 {
		return
	}
	h := &w.life.hand[w.rnd.Intn(len(w.life.hand))]
	done := w.rnd.Intn(len(h.offs) + 1)
	want := 0
	if !h.part.p.Revoked() {
		want = max(0, min(done, len(h.offs)-1)-h.reported)
	}
	for _, off := range h.offs[h.reported : h.reported+want] {
		w.handle(h, off, true)
	}
	if got := w.life.s.Report(&h.g, done); got != want {
		w.failf("Report finished %d records, want %d", got, want)
	}
	h.reported += want
}

// acknowledge ends a hold: the dead letter was acknowledged, or is given up.
func (w *world) acknowledge() {
	if len(w.life.holds) == 0 {
		return
	}
	i := w.rnd.Intn(len(w.life.holds))
	h := w.life.holds[i]
	w.life.holds = slices.Delete(w.life.holds, i, i+1)
	there := !h.h.part.p.Revoked() && h.h.part.inMemory[h.off]
	done := w.rnd.Intn(2)
	if there && done == 1 {
		w.handle(&h.h, h.off, true)
	}
	if got := w.life.s.Unhold(h.ref, done); got != there {
		w.failf("Unhold said %v for offset %d, want %v", got, h.off, there)
	}
}

// reread reads on with the partition's pass, or begins one.
func (w *world) reread(p *part) {
	s := w.life.s
	if p.pass == nil && !w.beginPass(p) {
		return
	}
	at := p.pass.At()
	next := min(at+1+int64(w.rnd.Intn(8)), p.t.Next())
	if next <= at {
		p.pass = nil
		return
	}
	for off := max(at, p.log.start); off < next; off++ {
		r := p.log.recs[off]
		if r.kind != data || r.gone {
			continue
		}
		w.judge(p, at, off, r.key)
		if id := w.id(r.key); w.rnd.Intn(30) == 0 && !w.calm {
			wanted := s.Wanted(p.pass, &id, off)
			v := s.RefillGate(p.pass, &id, lane.Gate{Offset: off, Mark: uint64(off)})
			if wanted == (v == lane.Unwanted) {
				w.failf("a record that is wanted, %v, gates its lane: %v", wanted, v)
			}
			if v == lane.Skipped {
				p.gateAt(r.key, off)
			}
			continue
		}
		v := s.Refill(p.pass, w.id(r.key), lane.Item[int64]{Offset: off, Rec: off, Bytes: 10})
		switch {
		case v == lane.Queued:
			p.inMemory[off] = true
			if gate, waits := p.gates[r.key]; waits && off >= gate {
				w.failf("partition %d key %d waits at %d and took offset %d", p.id, r.key, gate, off)
			}
		case v == lane.Full && !p.scout:
			next = off
		}
	}
	full := next < p.t.Next() && !p.scout
	s.Passed(p.pass, next)
	p.t.Passed(at, next)
	if full && w.rnd.Intn(2) == 0 || p.scout && w.rnd.Intn(4) == 0 {
		p.pass = nil
	}
}

// gateAt notes that a key waits, unless it does so at a lower offset.
func (p *part) gateAt(k int, off int64) {
	if at, waits := p.gates[k]; !waits || off < at {
		p.gates[k] = off
	}
}

// reopen ends the waits of some lanes, or of all.
func (w *world) reopen(p *part, all bool) {
	for next := 1 << 20; next > 0; {
		next = w.life.s.Reopen(p.p, next, 1+w.rnd.Intn(3), func(g lane.Gated) (uint8, bool) {
			k := w.keyOf(g.Key)
			if at, waits := p.gates[k]; !waits || at != g.Offset || g.Mark != uint64(at) || g.Name != w.keys[k].name {
				w.failf("partition %d: key %d waits as %+v, should at %d", p.id, k, g.Gate, at)
			}
			if !all && w.rnd.Intn(2) == 0 {
				return uint8(w.rnd.Intn(lane.Whys)), true
			}
			delete(p.gates, k)
			return 0, false
		})
	}
}

func (w *world) keyOf(b []byte) int {
	return slices.IndexFunc(w.keys, func(k key) bool { return string(k.bytes) == string(b) })
}

func (w *world) beginPass(p *part) bool {
	over := w.life.s.Overflows(p.p, nil)
	from, ok := p.t.FirstName()
	for _, o := range over {
		if !ok || o.First < from {
			from, ok = o.First, true
		}
	}
	if !ok {
		return false
	}
	p.scout = false
	if len(over) > 0 && w.rnd.Intn(3) == 0 && !w.calm {
		from, p.scout = over[w.rnd.Intn(len(over))].First, true
	}
	pass := w.life.s.BeginPass(p.p, from)
	p.pass = &pass
	return true
}

func (w *world) judge(p *part, at, off int64, k int) {
	s, id := w.life.s, w.id(k)
	l, m := p.t.Judge(at, off, w.keys[k].name)
	switch m {
	case offset.Exact:
		s.Skip(p.p, id, off, p.t.InheritedFrontier()-1)
		if l.Parked {
			s.ParkLane(p.p, id.Key)
		}
		if l.Paused {
			s.PauseTenant(id.Tenant)
		}
	case offset.Possible:
		s.Skip(p.p, id, off, p.t.InheritedFrontier()-1)
	case offset.Wrong:
		w.failf("partition %d offset %d is of key %d, which the commit did not name there", p.id, off, k)
	}
}

// operate does what an operator or a changed table does.
func (w *world) operate() {
	s, k := w.life.s, w.rnd.Intn(len(w.keys))
	p := w.anyPart()
	switch w.rnd.Intn(16) {
	case 14, 15:
		w.reopen(p, false)
	case 12:
		s.LimitLanes(1+w.rnd.Intn(8), 1<<20, time.Duration(w.rnd.Intn(2))*time.Millisecond)
	case 8:
		s.Spill(p.p, w.rnd.Intn(4), w.rnd.Intn(8), func(it *lane.Item[int64]) { delete(p.inMemory, it.Offset) })
	case 0:
		s.PauseTenant(w.keys[k].owner)
	case 1:
		s.ResumeTenant(w.keys[k].owner)
	case 2, 3:
		s.ResumeLane(p.p, w.keys[k].bytes)
	case 4, 9, 10:
		if it, ok := s.SkipFirst(p.p, w.keys[k].bytes); ok {
			p.log.recs[it.Offset].handled = true
			p.last[k] = it.Offset + 1
			delete(p.inMemory, it.Offset)
		}
	case 5:
		s.SetTier("", lane.Tier{
			Weight: float64(1 + w.rnd.Intn(5)), MaxConcurrency: w.rnd.Intn(4),
			Tenant: lane.Tenant{Rate: float64(w.rnd.Intn(3) * 200), Burst: 3},
		}, w.now)
	case 6:
		s.SetTenant(w.keys[k].owner, lane.Tenant{Weight: float64(w.rnd.Intn(3))}, w.now)
	case 11:
		w.tiers[w.rnd.Intn(w.tenants)] = lane.TierID(w.rnd.Intn(2))
	case 13:
		s.Retier(p.p, func([]byte) lane.TierID { return lane.TierID(w.rnd.Intn(2)) }, w.now)
	case 7:
		switch w.rnd.Intn(3) {
		case 0:
			s.Drain(p.p, w.rnd.Intn(4))
		case 1:
			s.Stop(p.p)
		}
		s.Start(p.p)
	}
}

// reassign takes a partition away, in good order or not, and gives it back.
func (w *world) reassign() {
	p := w.anyPart()
	if w.rnd.Intn(2) == 0 {
		w.commit(p, true)
	}
	w.life.s.Revoke(p.p)
	if w.life.s.Push(p.p, w.id(0), lane.Item[int64]{Offset: 1 << 40}) != lane.Gone {
		w.failf("a revoked partition took a record")
	}
	w.assign(p.id)
}

func (w *world) crash() { w.born() }

// forget is retention and compaction.
func (w *world) forget() {
	log := w.logs[w.rnd.Intn(len(w.logs))]
	if len(log.recs) == 0 {
		return
	}
	if w.rnd.Intn(2) == 0 {
		log.recs[w.rnd.Intn(len(log.recs))].gone = true
		return
	}
	log.start = max(log.start, int64(w.rnd.Intn(len(log.recs)))-10)
	for off := range log.start {
		log.recs[off].gone = true
	}
	for _, p := range w.life.parts {
		if p.log == log {
			w.life.s.Lost(p.p, log.start)
			maps.DeleteFunc(p.gates, func(_ int, at int64) bool { return at < log.start })
			p.t.Lost(log.start)
			p.pass = nil
		}
	}
}
