package consumer

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/consumer/refetch"
	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// house is a topic's logs, its routing table, a group's commits, and workers,
// in a bubble of virtual time and without a broker. What the Runtime does around
// the engine is done by hand, so that a test may let it lag or fail.
type house struct {
	t       *testing.T
	logs    []*houseLog
	table   *routing.Table // the newest one
	commits map[topicPartition]stored
	workers []*houseWorker
	cfg     Config

	mu sync.Mutex
	// guards the fields below
	handled    []event
	quarantine []*kgo.Record
	do         Handler           // what handlers do; nil: succeed
	post       func() error      // what becomes of a letter; nil: it is acknowledged
	before     func(event) error // checks a handling
}

type stored struct {
	offset   int64
	metadata string
}

// event is a handling that succeeded.
type event struct {
	tenant, value string
	partition     int32
	offset        int64
	epoch         uint64
}

// houseLog is a partition's log.
type houseLog struct {
	mu sync.Mutex
	// guards records
	records []*kgo.Record
}

// newHouse has a topic of some partitions, whose producers are wrapped.
func newHouse(t *testing.T, partitions int32, cfg Config) *house {
	h := &house{t: t, cfg: cfg, commits: map[topicPartition]stored{}}
	for range partitions {
		h.logs = append(h.logs, &houseLog{})
	}
	var err error
	h.table, err = routing.NewTable(routing.Spec{Topics: map[string]routing.TopicSpec{"orders": {
		Partitions: partitions, Slots: 8, Wrapped: true,
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// inHouse runs f in a bubble, with so many workers, and ends them.
func inHouse(t *testing.T, partitions int32, workers int, cfg Config, f func(t *testing.T, h *house)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, partitions, cfg)
		for range workers {
			h.hire()
		}
		defer func() {
			for _, w := range h.workers {
				w.end()
			}
		}()
		f(t, h)
	})
}

// edit changes the newest table. No worker sees it before it looks.
func (h *house) edit(edits ...routing.Edit) {
	h.t.Helper()
	next, err := h.table.Edit(edits...)
	if err != nil {
		h.t.Fatalf("editing the table: %v", err)
	}
	h.table = next
}

func (h *house) topic() *routing.Topic {
	topic, _ := h.table.Topic("orders")
	return topic
}

// place pins a tenant to partitions.
func (h *house) place(tenant string, partitions ...int32) {
	h.edit(routing.SetPlacement("orders", tenant, routing.Placement{Partitions: partitions}))
}

// prepare opens a move of a tenant.
func (h *house) prepare(id, tenant string, to ...int32) {
	h.edit(routing.PrepareMove("orders", routing.Move{ID: id, Tenant: tenant, To: to, Deadline: time.Now().Add(time.Minute)}))
}

// fence writes a move's fences and returns where they are.
func (h *house) fence(id string) (fences []routing.Fence) {
	m, ok := h.topic().Move(id)
	if !ok {
		h.t.Fatalf("no move %s", id)
	}
	from := slices.Sorted(slices.Values(m.From))
	for _, p := range from {
		fences = append(fences, routing.Fence{Partition: p, Offset: h.logs[p].add(p, fenceRecord(m))})
	}
	return fences
}

func fenceRecord(m *routing.Move) *kgo.Record {
	c := routing.Control{Kind: routing.ControlFence, Move: m.ID, Unit: m.Unit(), Epoch: m.Epoch}
	return &kgo.Record{
		Key: routing.ControlKey(m.ID), Value: []byte("fence"),
		Headers: []kgo.RecordHeader{{Key: routing.HeaderControl, Value: c.Append(nil)}},
	}
}

func (h *house) confirm(id string, fences []routing.Fence) {
	h.edit(routing.SwitchMove("orders", id, fences))
}
func (h *house) abort(id string) { h.edit(routing.AbortMove("orders", id)) }

// moveTenant is a whole move. It returns the fences.
func (h *house) moveTenant(id, tenant string, to ...int32) []routing.Fence {
	h.prepare(id, tenant, to...)
	x := h.fence(id)
	h.confirm(id, x)
	return x
}

// send writes records of a tenant to where the newest table has it, stamped, and
// returns the partition.
func (h *house) send(tenant string, values ...int) int32 {
	r := h.topic().Lookup([]byte(tenant), nil)
	for _, v := range values {
		h.sendTo(r.Partition, tenant, strconv.Itoa(v), r.Epoch, r.Kind)
	}
	return r.Partition
}

// sendTo writes a record anywhere.
func (h *house) sendTo(partition int32, tenant, value string, epoch uint64, kind routing.Kind) int64 {
	return h.logs[partition].add(partition, &kgo.Record{
		Key: []byte(tenant), Value: []byte(value),
		Headers: []kgo.RecordHeader{{Key: routing.HeaderRoute, Value: routing.RouteHeader{Kind: kind, Epoch: epoch}.Append(nil)}},
	})
}

func (l *houseLog) add(partition int32, r *kgo.Record) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.Topic, r.Partition, r.Offset, r.LeaderEpoch = "orders", partition, int64(len(l.records)), 1
	l.records = append(l.records, r)
	return r.Offset
}

func (l *houseLog) end() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int64(len(l.records))
}

func (l *houseLog) from(offset int64, most int) []*kgo.Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	offset = min(offset, int64(len(l.records)))
	return l.records[offset:min(offset+int64(most), int64(len(l.records)))]
}

// Read reads a log again.
func (h *house) Read(_ context.Context, _ string, partition int32, from int64, maxBytes int32) (refetch.Chunk, error) {
	time.Sleep(time.Millisecond)
	records := h.logs[partition].from(from, int(maxBytes/64))
	next := from + int64(len(records))
	return refetch.Chunk{
		From: from, Next: next, End: h.logs[partition].end(), AtEnd: len(records) == 0, Records: records, Bytes: 64 * len(records),
	}, nil
}

func (h *house) letter(r *kgo.Record, done func(error)) {
	h.mu.Lock()
	err := error(nil)
	if h.post != nil {
		err = h.post()
	}
	if err == nil {
		h.quarantine = append(h.quarantine, r)
	}
	h.mu.Unlock()
	done(err)
}

// seen is what was handled, as "tenant:value".
func (h *house) seen() string {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	s := ""
	for _, e := range h.handled {
		s += fmt.Sprintf("%s:%s ", e.tenant, e.value)
	}
	return s
}

// settle lets all workers do what they can, for a while.
func (h *house) settle() {
	for range 40 {
		for _, w := range h.workers {
			if !w.dead {
				w.poll(100)
				w.commit()
				w.look()
			}
		}
		time.Sleep(20 * time.Millisecond)
		synctest.Wait()
	}
}

// finish lets the workers go on until so many records were handled.
func (h *house) finish(n int) {
	h.t.Helper()
	for range 50 {
		h.settle()
		h.mu.Lock()
		done := len(h.handled)
		h.mu.Unlock()
		if done >= n {
			return
		}
	}
	h.t.Fatalf("%d handled, want %d; waiting %v", len(h.handled), n, h.workers[0].waits())
}

// wantOrder wants each tenant's values handled once, in order, and so many in
// all.
func (h *house) wantOrder(n int) {
	h.t.Helper()
	last := make(map[string]int)
	for _, e := range h.handled {
		v, err := strconv.Atoi(e.value)
		if err != nil || v != last[e.tenant]+1 {
			h.t.Fatalf("tenant %s: %s handled after %d", e.tenant, e.value, last[e.tenant])
		}
		last[e.tenant] = v
	}
	if len(h.handled) != n {
		h.t.Errorf("%d handled, want %d", len(h.handled), n)
	}
}

func fenceOf(id, tenant string, epoch uint64) *kgo.Record {
	return fenceRecord(&routing.Move{ID: id, Tenant: tenant, Epoch: epoch})
}

func unstamped(tenant, value string) *kgo.Record {
	return &kgo.Record{Key: []byte(tenant), Value: []byte(value)}
}
