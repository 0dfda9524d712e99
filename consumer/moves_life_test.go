package consumer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// life is a random life of a house: tenants move to and fro while workers lag,
// lose commits, hand partitions over and crash. It is held to what a reader of
// everything would demand: each record handled, in order, none of an earlier
// home after one of a later, and no stale one.
type life struct {
	*house
	rnd   *rand.Rand
	sent  map[string]int
	open  map[string]string          // open move of a tenant
	x     map[string][]routing.Fence // its fences, once written
	late  map[[2]int64]string        // records that came late, by partition and offset: the move
	moved map[string]bool            // moves that were confirmed
	owner map[int32]int              // worker of each partition
	last  map[string]int             // highest value handled
	epoch map[string]uint64          // highest epoch handled
	n     int
}

func (l *life) tenants() []string { return []string{"a", "b", "c"} }

// check holds a handling to what was handled before.
func (l *life) check(e event) error {
	if e.epoch < l.epoch[e.tenant] {
		return fmt.Errorf("%+v of an earlier home handled after epoch %d", e, l.epoch[e.tenant])
	}
	l.epoch[e.tenant] = e.epoch
	v, err := strconv.Atoi(e.value)
	if err != nil {
		return nil //nolint:nilerr // a late record; judged at the end
	}
	if v > l.last[e.tenant]+1 {
		return fmt.Errorf("%+v handled after %d", e, l.last[e.tenant])
	}
	l.last[e.tenant] = max(l.last[e.tenant], v)
	return nil
}

func (l *life) step() {
	tenant := l.tenants()[l.rnd.IntN(3)]
	w := l.workers[l.owner[int32(l.rnd.IntN(len(l.logs)))]]
	switch n := l.rnd.IntN(100); {
	case n < 25:
		l.produce(tenant)
	case n < 37:
		l.advance(tenant)
	case n < 57:
		w.poll(1 + l.rnd.IntN(10))
	case n < 69:
		l.commitSome(w)
	case n < 79:
		w.look()
	case n < 86:
		w.see()
	case n < 89:
		w.view.mu.Lock()
		w.view.away = !w.view.away
		w.view.mu.Unlock()
	case n < 96:
		l.reassign()
	case n < 98:
		l.crash()
	}
	time.Sleep(time.Duration(l.rnd.IntN(20)) * time.Millisecond)
	synctest.Wait()
}

func (l *life) produce(tenant string) {
	if l.open[tenant] != "" {
		return // its producer holds it back
	}
	for range 1 + l.rnd.IntN(4) {
		l.sent[tenant]++
		l.send(tenant, l.sent[tenant])
	}
}

// advance takes a tenant's move a step on.
func (l *life) advance(tenant string) {
	id := l.open[tenant]
	m, _ := l.topic().Move(id)
	switch {
	case id == "":
		from := l.topic().Lookup([]byte(tenant), nil).Partition
		l.n++
		l.open[tenant] = fmt.Sprint("m", l.n)
		l.prepare(l.open[tenant], tenant, (from+1+int32(l.rnd.IntN(len(l.logs)-1)))%int32(len(l.logs)))
	case l.rnd.IntN(5) == 0:
		l.abort(id)
		delete(l.open, tenant)
	case l.x[id] == nil:
		l.x[id] = l.fence(id)
		for range l.rnd.IntN(3) {
			old := l.topic().Lookup([]byte(tenant), nil)
			at := l.sendTo(m.From[0], tenant, "late", old.Epoch, old.Kind)
			l.late[[2]int64{int64(m.From[0]), at}] = id
		}
	default:
		l.confirm(id, l.x[id])
		l.moved[id] = true
		delete(l.open, tenant)
	}
}

// commitSome commits, and loses the commit or its answer now and then.
func (l *life) commitSome(w *houseWorker) {
	for tp, c := range w.pendingCommits(w.owned(nil)) {
		if l.rnd.IntN(6) == 0 {
			continue
		}
		l.commits[tp] = stored{c.Offset, metadataText(c)}
		if l.rnd.IntN(6) > 0 {
			w.acknowledged(c)
		}
	}
}

func (l *life) reassign() {
	id := int32(l.rnd.IntN(len(l.logs)))
	from := l.workers[l.owner[id]]
	if l.rnd.IntN(2) == 0 {
		from.give(id)
	} else {
		from.lose(id)
	}
	l.assignTo(id)
}

func (l *life) assignTo(id int32) {
	var alive []int
	for i, w := range l.workers {
		if !w.dead {
			alive = append(alive, i)
		}
	}
	l.owner[id] = alive[l.rnd.IntN(len(alive))]
	l.workers[l.owner[id]].assign(id)
}

func (l *life) crash() {
	id := int32(l.rnd.IntN(len(l.logs)))
	dead := l.owner[id]
	l.workers[dead].end()
	l.hire()
	for id := range int32(len(l.logs)) {
		if l.owner[id] == dead {
			l.assignTo(id)
		}
	}
}

// finish lets everything succeed.
func (l *life) calm() {
	l.mu.Lock()
	l.do = nil
	l.mu.Unlock()
	for tenant, id := range l.open {
		l.abort(id)
		delete(l.open, tenant)
	}
	for _, w := range l.workers {
		w.view.mu.Lock()
		w.view.away = false
		w.view.mu.Unlock()
		if !w.dead {
			w.see()
		}
	}
	for range 20 {
		l.settle()
		if l.allDone() {
			return
		}
	}
}

func (l *life) allDone() bool {
	for id, log := range l.logs {
		if l.commits[topicPartition{"orders", int32(id)}].offset != log.end() {
			return false
		}
	}
	return true
}

func (l *life) judge(t *testing.T) {
	if !l.allDone() {
		t.Errorf("committed %v of %d, %d, %d", l.commits, l.logs[0].end(), l.logs[1].end(), l.logs[2].end())
	}
	for _, tenant := range l.tenants() {
		if l.last[tenant] != l.sent[tenant] {
			t.Errorf("tenant %s: handled up to %d of %d", tenant, l.last[tenant], l.sent[tenant])
		}
	}
	aside := make(map[string]bool)
	for _, r := range l.quarantine {
		aside[string(r.Key)] = true
	}
	for at, id := range l.late {
		handled := slices.ContainsFunc(l.handled, func(e event) bool { return int64(e.partition) == at[0] && e.offset == at[1] })
		if handled == l.moved[id] || aside[fmt.Sprintf("orders/%d/%d", at[0], at[1])] != l.moved[id] {
			t.Errorf("the late record at %v of move %s, confirmed %v: handled %v", at, id, l.moved[id], handled)
		}
	}
	if len(aside) > len(l.late) {
		t.Errorf("%d records in quarantine, %d came late", len(aside), len(l.late))
	}
}

func TestARandomLifeOfMovesKeepsOrder(t *testing.T) {
	for seed := range uint64(25) {
		cfg := Config{MaxRecords: 24, LaneRecords: 3, Concurrency: 2, Retry: Retry{Min: 5 * time.Millisecond, Max: 20 * time.Millisecond}}
		inHouse(t, 3, 2, cfg, func(t *testing.T, h *house) {
			l := &life{
				house: h, rnd: rand.New(rand.NewPCG(seed, 7)), sent: map[string]int{}, open: map[string]string{},
				x: map[string][]routing.Fence{}, late: map[[2]int64]string{}, moved: map[string]bool{},
				owner: map[int32]int{}, last: map[string]int{}, epoch: map[string]uint64{},
			}
			h.before = l.check
			fails := rand.New(rand.NewPCG(seed, 8))
			h.do = func(context.Context, *Record) error {
				if fails.IntN(8) == 0 {
					return errTest
				}
				return nil
			}
			for id := range int32(3) {
				l.assignTo(id)
			}
			for range 300 {
				l.step()
			}
			l.calm()
			l.judge(t)
			if t.Failed() {
				t.Logf("seed %d", seed)
			}
		})
		if t.Failed() {
			return
		}
	}
}
