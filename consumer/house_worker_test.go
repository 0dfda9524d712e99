package consumer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/consumer/offset"
	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// houseWorker is an engine with what is around it.
type houseWorker struct {
	*engine
	house   *house
	view    *houseView
	cursors map[int32]int64
	cancel  []context.CancelFunc
	group   sync.WaitGroup
	dead    bool
	kicks   int
}

// houseView is a worker's view of the table, which lags behind the newest.
type houseView struct {
	h  *house
	mu sync.Mutex
	// guards the fields below
	table *routing.Table
	away  bool // the routing topic cannot be reached
}

func (v *houseView) Table() *routing.Table {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.table
}

func (v *houseView) Changed() <-chan struct{} { return nil }

var errAway = errors.New("the routing topic is away")

func (v *houseView) Sync(context.Context) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.away {
		return errAway
	}
	v.table = v.h.table
	return nil
}

// hire starts a worker with the newest table and no partition.
func (h *house) hire() *houseWorker {
	h.t.Helper()
	w := &houseWorker{house: h, view: &houseView{h: h, table: h.table}, cursors: map[int32]int64{}}
	cfg := h.cfg
	cfg.Group, cfg.Topics, cfg.Table = "g", []string{"orders"}, w.view
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		h.t.Fatal(err)
	}
	var err error
	if w.engine, err = newEngine(&cfg, w.handle, newMetrics(), h.letter); err != nil {
		h.t.Fatal(err)
	}
	w.engine.moves.kick = func() { w.kicks++ }
	handlers, stop := context.WithCancel(context.Background())
	rest, stopRest := context.WithCancel(context.Background())
	w.cancel = []context.CancelFunc{stop, stopRest}
	w.engine.start(handlers)
	w.group.Go(func() { w.clock(rest) })
	w.group.Go(func() { w.engine.reread(rest, h) })
	h.workers = append(h.workers, w)
	return w
}

// end stops a worker at once. What it has in hand changes nothing any more.
func (w *houseWorker) end() {
	if w.dead {
		return
	}
	w.house.mu.Lock()
	w.dead = true
	w.house.mu.Unlock()
	if err := w.engine.stop(w.cancel[0], time.Minute); err != nil {
		w.house.t.Errorf("stopping: %v", err)
	}
	w.cancel[1]()
	w.group.Wait()
}

func (w *houseWorker) handle(ctx context.Context, r *Record) error {
	h := w.house
	e := event{tenant: string(r.Tenant), value: string(r.Value), partition: r.Partition, offset: r.Offset}
	for _, header := range r.Headers {
		if header.Key == routing.HeaderRoute {
			route, err := routing.ParseRouteHeader(header.Value)
			if err != nil {
				return err
			}
			e.epoch = route.Epoch
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if w.dead {
		return errTest
	}
	if h.do != nil {
		if err := h.do(ctx, r); err != nil {
			return err
		}
	}
	if h.before != nil {
		if err := h.before(e); err != nil {
			h.t.Error(err)
		}
	}
	h.handled = append(h.handled, e)
	return nil
}

// assign gives a worker a partition, as its group does: the commit is fetched,
// the table read to its end, and then it begins.
func (w *houseWorker) assign(ids ...int32) {
	w.house.t.Helper()
	for _, id := range ids {
		at := w.beginAt(id)
		at.behindTable = w.sync() != nil
		w.begin(id, at)
	}
}

// beginAt is where a partition begins by the group's commit.
func (w *houseWorker) beginAt(id int32) begin {
	c, ok := w.house.commits[topicPartition{"orders", id}]
	if !ok {
		return fresh()
	}
	at := begin{offset: c.offset, epoch: -1, committed: c.offset, identity: testIdentity()}
	if said, why := offset.Open(checkpointText(c.metadata), testIdentity(), c.offset); why == offset.Valid {
		at.checkpoint = &said
	}
	return at
}

func (w *houseWorker) begin(id int32, at begin) {
	w.open(topicPartition{"orders", id}, at, 1)
	w.cursors[id] = at.cursor()
}

// sync reads the table to its end.
func (w *houseWorker) sync() error {
	at := w.beginSync()
	if err := w.view.Sync(context.Background()); err != nil {
		w.retrySync()
		return err
	}
	w.applyTable()
	w.endSync(at)
	return nil
}

// see lets a worker have the newest table, as one who follows it does.
func (w *houseWorker) see() {
	w.view.mu.Lock()
	w.view.table = w.house.table
	w.view.mu.Unlock()
	w.applyTable()
}

// poll admits what there is of a worker's partitions, at most so many records of
// each.
func (w *houseWorker) poll(most int) {
	for tp, at := range w.takeRewinds() {
		w.cursors[tp.id] = at
	}
	for _, id := range slices.Sorted(maps.Keys(w.cursors)) {
		n := min(w.free(), most)
		if n == 0 || w.far()[topicPartition{"orders", id}] {
			continue
		}
		w.fetch(id, n)
	}
}

// fetch admits what there is of a partition.
func (w *houseWorker) fetch(id int32, most int) {
	records := w.house.logs[id].from(w.cursors[id], most)
	w.admit(&admission{}, "orders", w.opened(topicPartition{"orders", id}), &kgo.FetchPartition{
		Partition: id, Records: records, HighWatermark: w.house.logs[id].end(),
	})
	w.cursors[id] += int64(len(records))
}

// commit commits a worker's partitions, or all.
func (w *houseWorker) commit(ids ...int32) {
	if ids == nil {
		ids = slices.Collect(maps.Keys(w.cursors))
	}
	for tp, c := range w.pendingCommits(w.owned(map[string][]int32{"orders": ids})) {
		w.house.commits[tp] = stored{c.Offset, metadataText(c)}
		w.acknowledged(c)
	}
}

// look does what lanes that wait need: the table is read, and the group's
// commits are fetched, if anybody asks.
func (w *houseWorker) look() {
	if w.wantsSync() {
		_ = w.sync()
	}
	w.reopen()
	asked := w.askedCommits()
	commits := make(map[topicPartition]fetchedCommit)
	for tp, id := range asked {
		if c, ok := w.house.commits[tp]; ok {
			f := fetchedCommit{offset: c.offset, metadata: c.metadata}
			f.open(id)
			commits[tp] = f
		}
	}
	if len(commits) > 0 && w.learn(commits) {
		w.reopen()
	}
}

// give takes partitions away in good order.
func (w *houseWorker) give(ids ...int32) {
	parts := w.owned(map[string][]int32{"orders": ids})
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	w.drain(ctx, parts)
	w.commit(ids...)
	w.lose(ids...)
}

// lose takes partitions away without a commit.
func (w *houseWorker) lose(ids ...int32) {
	w.close(w.owned(map[string][]int32{"orders": ids}))
	for _, id := range ids {
		delete(w.cursors, id)
	}
}

// waits are a worker's lanes that wait, by reason.
func (w *houseWorker) waits() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := ""
	for why, n := range w.waitingLanes() {
		if n > 0 {
			s += fmt.Sprintf("%s:%d ", whyWord(uint8(why)), n)
		}
	}
	return s
}
