package rebalance

import (
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

// soon is how long a test waits for a move to give up. It leaves a busy machine
// the time to find out why.
const soon = 500 * time.Millisecond

var acmeStopped = StoppedMove{Topic: "orders", Tenant: "acme", To: []int32{3}, Groups: []string{"g"}}

func TestMoveStopped(t *testing.T) {
	w := newWorld(t)
	w.produce(1, 2, 3)
	w.commit("g", 0, 3)
	report, err := w.coordinator(w.file).MoveStopped(patient(t), acmeStopped)
	if err != nil {
		t.Fatal(err)
	}
	if report.State != StateDone || report.Mode != "stopped" || !slices.Equal(report.From, []int32{0}) || !slices.Equal(report.To, []int32{3}) ||
		report.Epoch != 2 || report.Revision != 2 || report.Pause <= 0 || !slices.Equal(report.Groups, []string{"g"}) || report.Ends[0] != 3 {
		t.Errorf("report %+v", report)
	}
	w.home(3)
	onDisk, err := os.ReadFile(w.path)
	if err != nil || !strings.Contains(string(onDisk), "revision: 2") {
		t.Errorf("the file holds %s (%v)", onDisk, err)
	}
}

func TestMoveStoppedFindsTheGroupsItself(t *testing.T) {
	w := newWorld(t)
	w.produce(1, 2)
	w.commit("one", 0, 2)
	w.commit("two", 0, 2)
	m := acmeStopped
	m.Groups = nil
	report, err := w.coordinator(w.file).MoveStopped(patient(t), m)
	if err != nil || !slices.Equal(report.Groups, []string{"one", "two"}) {
		t.Errorf("waited for %v, %v", report.Groups, err)
	}
}

func TestMoveStoppedToASpread(t *testing.T) {
	w := newWorld(t)
	m := acmeStopped
	m.To, m.Spread = []int32{1, 2}, routing.SpreadRandom
	report, err := w.coordinator(w.file).MoveStopped(patient(t), m)
	if err != nil || !slices.Equal(report.To, []int32{1, 2}) {
		t.Fatalf("%+v, %v", report, err)
	}
	topic, _ := w.file.Table().Topic("orders")
	if got := topic.Lookup([]byte("acme"), nil); got.Kind != routing.KindSpreadRandom {
		t.Errorf("route %+v", got)
	}
}

func TestMoveStoppedRefusesBeforeAnybodyWaits(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*StoppedMove)
		want   string
	}{
		"an unknown topic":   {func(m *StoppedMove) { m.Topic = "absent" }, "no topic absent"},
		"no tenant":          {func(m *StoppedMove) { m.Tenant = "" }, "Tenant is empty"},
		"nowhere":            {func(m *StoppedMove) { m.To = nil }, "needs partitions"},
		"outside the topic":  {func(m *StoppedMove) { m.To = []int32{4} }, "placements.acme.partitions"},
		"two homes":          {func(m *StoppedMove) { m.To = []int32{1, 2} }, "spread"},
		"where it is":        {func(m *StoppedMove) { m.To = []int32{0} }, "already"},
		"a negative timeout": {func(m *StoppedMove) { m.DrainTimeout = -1 }, "DrainTimeout"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			m := acmeStopped
			c.change(&m)
			spy := &spyPauser{}
			report, err := w.coordinator(w.file, spy).MoveStopped(patient(t), m)
			if err == nil || !strings.Contains(err.Error(), c.want) || report.State != StateAborted {
				t.Errorf("%+v, %v", report, err)
			}
			if spy.pauses.Load() != 0 {
				t.Error("a producer was paused")
			}
		})
	}
}

func TestMoveStoppedRefusesANewHomeThatTheTopicLacks(t *testing.T) {
	w := newWorld(t)
	next, err := w.file.Table().Edit(routing.Grow("orders", 8))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.file.Write(patient(t), next); err != nil {
		t.Fatal(err)
	}
	m := acmeStopped
	m.To = []int32{7}
	if _, err := w.coordinator(w.file).MoveStopped(patient(t), m); err == nil || !strings.Contains(err.Error(), "new home") {
		t.Errorf("error is %v", err)
	}
	w.home(0)
}

// spyPauser has nothing in flight unless told, and none of the optional methods.
type spyPauser struct {
	pauses, resumes, inFlight atomic.Int64
}

func (s *spyPauser) Pause(string, []byte)        { s.pauses.Add(1) }
func (s *spyPauser) Resume(string, []byte)       { s.resumes.Add(1) }
func (s *spyPauser) InFlight(string, []byte) int { return int(s.inFlight.Load()) }

func TestMoveStoppedWorksWithThePlainPauser(t *testing.T) {
	w := newWorld(t)
	spy := &spyPauser{}
	spy.inFlight.Store(2)
	var flight sync.WaitGroup
	flight.Go(func() {
		for spy.pauses.Load() == 0 {
			<-time.After(time.Millisecond)
		}
		spy.inFlight.Store(0)
	})
	if _, err := w.coordinator(w.file, w.producer, spy).MoveStopped(patient(t), acmeStopped); err != nil {
		t.Error(err)
	}
	flight.Wait()
	if spy.pauses.Load() != 1 || spy.resumes.Load() != 1 {
		t.Errorf("%d pauses, %d resumes", spy.pauses.Load(), spy.resumes.Load())
	}
}

func TestALaggingGroupHoldsAndThenAbortsAMove(t *testing.T) {
	w := newWorld(t)
	w.produce(1, 2, 3)
	w.commit("g", 0, 2)
	m := acmeStopped
	m.DrainTimeout = soon
	report, err := w.coordinator(w.file).MoveStopped(patient(t), m)
	var behind *NotDrainedError
	if !errors.As(err, &behind) || behind.Group != "g" || behind.Partition != 0 || behind.End != 3 || behind.Committed != 2 {
		t.Errorf("error is %v", err)
	}
	w.aborted(report, err, context.DeadlineExceeded)
}

func TestAGroupWithoutACommitIsWaitedFor(t *testing.T) {
	w := newWorld(t)
	w.produce(1)
	m := acmeStopped
	m.DrainTimeout = soon
	report, err := w.coordinator(w.file).MoveStopped(patient(t), m)
	w.aborted(report, err, ErrNotDrained)
}

func TestAnUnreadableCommitAbortsAMove(t *testing.T) {
	w := newWorld(t)
	w.produce(1)
	w.commit("g", 0, 1) // drained, if it could be known
	fault := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Group: "g", Err: kerr.GroupAuthorizationFailed, Count: -1})
	defer fault.Remove()
	m := acmeStopped
	m.DrainTimeout = soon
	report, err := w.coordinator(w.file).MoveStopped(patient(t), m)
	if !errors.Is(err, ErrNotDrained) || fault.Hits() == 0 {
		t.Errorf("error is %v after %d faults", err, fault.Hits())
	}
	w.aborted(report, err, ErrNotDrained)
}

func TestAnUnreadableEndAbortsAMove(t *testing.T) {
	w := newWorld(t)
	fault := w.cluster.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: "orders", Partitions: []int32{0}, Err: kerr.TopicAuthorizationFailed, Count: -1,
	})
	defer fault.Remove()
	report, err := w.coordinator(w.file).MoveStopped(patient(t), acmeStopped)
	fault.Remove()
	w.aborted(report, err, kerr.TopicAuthorizationFailed)
}

func TestCancelAbortsAMove(t *testing.T) {
	w := newWorld(t)
	w.produce(1)
	ctx, cancel := context.WithCancel(patient(t))
	spy := &spyPauser{}
	var canceler sync.WaitGroup
	canceler.Go(func() {
		for spy.pauses.Load() == 0 {
			<-time.After(time.Millisecond)
		}
		cancel()
	})
	report, err := w.coordinator(w.file, w.producer, spy).MoveStopped(ctx, acmeStopped)
	canceler.Wait()
	w.aborted(report, err, context.Canceled)
	if spy.resumes.Load() != 1 {
		t.Errorf("%d resumes", spy.resumes.Load())
	}
}

func TestWhatIsInFlightHoldsAMove(t *testing.T) {
	w := newWorld(t)
	w.produce(1)
	w.commit("g", 0, 1)
	fault := w.cluster.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Produce}, Topic: "orders", Partitions: []int32{0}, Err: kerr.NotLeaderForPartition, Count: -1,
	})
	defer fault.Remove()
	w.producer.Produce(context.Background(), &kgo.Record{Topic: "orders", Key: []byte("acme"), Value: []byte("2")}, nil)
	m := acmeStopped
	m.DrainTimeout = 50 * time.Millisecond
	report, err := w.coordinator(w.file).MoveStopped(patient(t), m)
	fault.Remove()
	w.aborted(report, err, context.DeadlineExceeded)
}

func TestOneTenantMovesOnceAtATime(t *testing.T) {
	w := newWorld(t)
	w.produce(1)
	c := w.coordinator(w.file)
	ctx, cancel := context.WithCancel(patient(t))
	var first sync.WaitGroup
	first.Go(func() {
		if _, err := c.MoveStopped(ctx, acmeStopped); !errors.Is(err, context.Canceled) {
			t.Errorf("the first move: %v", err)
		}
	})
	moving := func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.moving[unit{"orders", "acme"}]
	}
	for !moving() {
		<-time.After(time.Millisecond)
	}
	if _, err := c.MoveStopped(patient(t), acmeStopped); !errors.Is(err, ErrMoving) {
		t.Errorf("the second move: %v", err)
	}
	cancel()
	first.Wait()
	w.home(0)
}

// TestAProducerResumesByItsOwnView gives a producer a view that is behind. It
// must not go on by the old table.
func TestAProducerResumesByItsOwnView(t *testing.T) {
	w := newWorld(t)
	slow, err := store.OpenFile(context.Background(), w.path, store.FileConfig{Interval: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = slow.Close() }()
	behind := w.newProducer(slow)
	if report, err := w.coordinator(w.file, behind).MoveStopped(patient(t), acmeStopped); err != nil || report.State != StateDone {
		t.Fatalf("%+v, %v", report, err)
	}
	r := &kgo.Record{Topic: "orders", Key: []byte("acme")}
	if _, err := behind.ProduceSync(patient(t), r).First(); err != nil || r.Partition != 3 {
		t.Errorf("went to partition %d by revision %d (%v)", r.Partition, behind.Revision(), err)
	}
}

// blindPauser never sees a new table.
type blindPauser struct {
	spyPauser
	resumesAt atomic.Uint64
}

func (p *blindPauser) ResumeAt(_ string, _ []byte, revision uint64) { p.resumesAt.Store(revision) }

func (p *blindPauser) WaitRevision(ctx context.Context, _ uint64) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestAProducerThatSeesNoNewTableDoesNotHoldTheReportUp(t *testing.T) {
	w := newWorld(t)
	blind := &blindPauser{}
	m := acmeStopped
	m.DrainTimeout = soon
	report, err := w.coordinator(w.file, blind).MoveStopped(patient(t), m)
	if !errors.Is(err, context.DeadlineExceeded) || report.State != StateDone || report.Revision != 2 {
		t.Errorf("%+v, %v", report, err)
	}
	if blind.resumesAt.Load() != 2 || blind.resumes.Load() != 0 {
		t.Errorf("resumes at revision %d, and %d times at once", blind.resumesAt.Load(), blind.resumes.Load())
	}
}

func (s *dyingStore) Write(ctx context.Context, t *routing.Table) error {
	if s.write {
		if err := s.File.Write(ctx, t); err != nil {
			return err
		}
	}
	panic(s.err)
}

// TestOrderHoldsAcrossMoves produces and consumes one tenant while it moves to
// and fro. The handler must see each record once, in order.
func TestOrderHoldsAcrossMoves(t *testing.T) {
	const records, moves = 2000, 8
	w := newWorld(t)
	consumer := w.newClient(kgo.ConsumeTopics("orders"), kgo.ConsumerGroup("g"), kgo.DisableAutoCommit(), kgo.FetchMaxWait(10*time.Millisecond))
	ctx, cancel := context.WithCancel(patient(t))
	defer cancel()
	var handled []string
	var handler, producer sync.WaitGroup
	handler.Go(func() {
		for len(handled) < records && ctx.Err() == nil {
			fetches := consumer.PollFetches(ctx)
			for r := range fetches.RecordsAll() {
				handled = append(handled, string(r.Value))
			}
			if err := consumer.CommitUncommittedOffsets(ctx); err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
		}
	})
	producer.Go(func() {
		for i := range records {
			w.producer.Produce(ctx, &kgo.Record{Topic: "orders", Key: []byte("acme"), Value: strconv.AppendInt(nil, int64(i), 10)},
				func(_ *kgo.Record, err error) {
					if err != nil {
						t.Error(err)
					}
				})
		}
	})
	c := w.coordinator(w.file)
	for i := range moves {
		m := acmeStopped
		m.To = []int32{int32(1 + i%3)}
		if report, err := c.MoveStopped(ctx, m); err != nil {
			t.Fatalf("move %d: %+v, %v", i, report, err)
		}
	}
	producer.Wait()
	handler.Wait()
	if len(handled) != records {
		t.Fatalf("handled %d records", len(handled))
	}
	for i, v := range handled {
		if v != strconv.Itoa(i) {
			t.Fatalf("place %d was record %s", i, v)
		}
	}
}

func TestCoordinatorConfigNamesTheField(t *testing.T) {
	w := newWorld(t)
	ok := CoordinatorConfig{Client: w.client, Table: w.file, Producers: []Pauser{w.producer}}
	for want, change := range map[string]func(*CoordinatorConfig){
		"Client":    func(c *CoordinatorConfig) { c.Client = nil },
		"Table":     func(c *CoordinatorConfig) { c.Table = nil },
		"Producers": func(c *CoordinatorConfig) { c.Producers = nil },
		"Poll":      func(c *CoordinatorConfig) { c.Poll = time.Microsecond },
	} {
		cfg := ok
		change(&cfg)
		if _, err := NewCoordinator(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
