package lane_test

import (
	"flag"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tenantlane/tenantlane/consumer/lane"
	"github.com/tenantlane/tenantlane/consumer/offset"
)

var worldSteps = flag.Int("world.steps", 100_000, "random steps of TestWorld; a soak takes 10,000,000")

// commit commits one partition; acknowledged or lost on the way back.
func (w *world) commit(p *part, acknowledged bool) {
	var behind []offset.Lane
	for _, b := range w.life.s.Behind(p.p, w.limit.Want(), nil) {
		behind = append(behind, offset.Lane(b))
	}
	c := p.t.Commit(w.identity(), behind, w.limit)
	w.checkState(p, c)
	if acknowledged {
		p.log.committed, p.log.metadata = c.Offset, c.Metadata
	}
}

// checkState holds a commit to what really is done.
func (w *world) checkState(p *part, c offset.Commit) {
	st := c.State
	for off := p.log.start; off < min(st.Frontier, int64(len(p.log.recs))); off++ {
		r := p.log.recs[off]
		if r.kind == data && !r.gone && !r.handled && w.claims(st, p.log, off) {
			w.failf("partition %d: a commit of W %d, F %d, %v claims offset %d, which is not done",
				p.id, st.Watermark, st.Frontier, st.Lanes, off)
		}
	}
	if c.Metadata != "" {
		got, why := offset.Open(c.Metadata, w.identity(), c.Offset)
		if why != offset.Valid || got.Frontier != st.Frontier || !slices.Equal(got.Lanes, st.Lanes) {
			w.failf("a commit's metadata reads as %v, %+v, want %+v", why, got, st)
		}
	} else if st.Frontier != st.Watermark {
		w.failf("a commit without metadata claims %+v", st)
	}
	if p.p.Overflowing() == 0 && !p.t.Recovering() {
		if want := w.naive(p); want.Watermark != st.Watermark || want.Frontier != st.Frontier || !sameNames(want.Lanes, st.Lanes) {
			w.failf("partition %d: commit %+v, want %+v", p.id, st, want)
		}
	}
}

func sameNames(a, b []offset.Lane) bool {
	return slices.EqualFunc(a, b, func(a, b offset.Lane) bool { return a.Name == b.Name && a.Offset == b.Offset })
}

// naive works out W, F and the names from the set of unfinished records.
func (w *world) naive(p *part) offset.State {
	first := map[int]int64{}
	for off := range p.inMemory {
		k := p.log.recs[off].key
		if f, ok := first[k]; !ok || off < f {
			first[k] = off
		}
	}
	var lanes []offset.Lane
	for k, off := range first {
		lanes = append(lanes, offset.Lane{Name: w.keys[k].name, Offset: off})
	}
	slices.SortFunc(lanes, func(a, b offset.Lane) int { return int(a.Offset - b.Offset) })
	st := offset.State{Frontier: p.t.Frontier()}
	if n := w.limit.Names; len(lanes) > n {
		st.Frontier, lanes = lanes[n].Offset, lanes[:n]
	}
	st.Lanes, st.Watermark = lanes, st.Frontier
	if len(lanes) > 0 {
		st.Watermark = lanes[0].Offset
	}
	return st
}

// finish lets everything succeed and checks that everything was handled.
func (w *world) finish() {
	w.calm = true
	for _, k := range w.keys {
		w.life.s.ResumeTenant(k.owner)
		w.life.s.SetTenant(k.owner, lane.Tenant{}, w.now)
	}
	w.life.s.SetTier("", lane.Tier{}, w.now)
	for range 20_000 {
		if w.failure != "" || w.settled() {
			break
		}
		for _, p := range w.life.parts {
			w.poll(p)
			w.reopen(p, true)
			w.reread(p)
			w.giveUp(p)
			for _, k := range w.keys {
				w.life.s.ResumeLane(p.p, k.bytes)
				w.life.s.ResumeTenant(k.owner)
			}
		}
		w.take()
		w.release(false)
		w.acknowledge()
		w.now += 10 * time.Millisecond
	}
	for _, p := range w.life.parts {
		w.commit(p, true)
		end := int64(len(p.log.recs))
		for off, r := range p.log.recs {
			if r.kind == data && !r.gone && !r.handled {
				w.failf("partition %d offset %d of key %d was never handled", p.id, off, r.key)
			}
		}
		if p.log.committed != end || p.log.metadata != "" {
			w.failf("partition %d ends at %d, committed %d, metadata %q", p.id, end, p.log.committed, p.log.metadata)
		}
	}
	if s := w.life.s; s.Records() != 0 || s.Bytes() != 0 || s.InHand() != 0 || s.Tenants() != 0 {
		w.failf("left: %d records, %d bytes, %d grants, %d tenants", s.Records(), s.Bytes(), s.InHand(), s.Tenants())
	}
}

func (w *world) settled() bool {
	for _, p := range w.life.parts {
		if p.t.Next() < int64(len(p.log.recs)) || p.t.Recovering() || p.p.Lanes() > 0 {
			return false
		}
	}
	return len(w.life.hand) == 0 && len(w.life.holds) == 0
}

// run takes a world through some steps and to its end.
func (w *world) run(steps int) string {
	for range steps {
		w.step()
		if err := w.life.s.Check(); err != nil {
			w.failf("%v", err)
		}
		w.checkHands()
		w.checkGates()
		if w.failure != "" {
			return w.failure
		}
	}
	w.finish()
	return w.failure
}

// checkHands holds the counts of grants in hand to those that are.
func (w *world) checkHands() {
	for _, p := range w.life.parts {
		n := 0
		for _, h := range w.life.hand {
			if h.part == p {
				n++
			}
		}
		if p.p.InHand() != n {
			w.failf("partition %d has %d grants in hand, counts %d", p.id, n, p.p.InHand())
		}
	}
	if got := w.life.s.InHand(); got != len(w.life.hand) {
		w.failf("%d grants are in hand, counted %d", len(w.life.hand), got)
	}
}

// checkGates holds the lanes that wait to those that should.
func (w *world) checkGates() {
	for _, p := range w.life.parts {
		n := 0
		for _, lanes := range p.p.Waiting() {
			n += lanes
		}
		if n != len(p.gates) {
			w.failf("partition %d: %d lanes wait, should %v", p.id, n, p.gates)
		}
		for _, o := range w.life.s.Overflows(p.p, nil) {
			if o.First > o.Last {
				w.failf("partition %d: a lane waits for %d to %d", p.id, o.First, o.Last)
			}
		}
	}
}

type generator struct{ r *rand.Rand }

func (g generator) Intn(n int) int { return g.r.IntN(n) }

// TestWorld runs worlds of a thousand steps each from fixed seeds: order,
// exclusion, no loss, exact watermarks and frontiers, and no repeat that a
// commit excludes, through failures, revocations, crashes, crashes during
// recovery, retention and compaction.
func TestWorld(t *testing.T) {
	const each = 1000
	for seed := range uint64(max(*worldSteps/each, 1)) {
		w := newWorld(generator{rand.New(rand.NewPCG(seed, 1))})
		if failure := w.run(each); failure != "" {
			t.Fatalf("seed %d: %s", seed, failure)
		}
	}
}

type draws struct{ t *rapid.T }

func (d draws) Intn(n int) int { return rapid.IntRange(0, n-1).Draw(d.t, "n") }

// TestWorldShrinks is TestWorld in short worlds that rapid makes smaller when
// they fail.
func TestWorldShrinks(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(draws{rt})
		if failure := w.run(rapid.IntRange(1, 60).Draw(rt, "steps")); failure != "" {
			rt.Fatal(failure)
		}
	})
}
