package partitioner

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

// Leases of tests that wait for the end of one, and of those that must not see
// it however busy the machine is.
const (
	shortLease = 400 * time.Millisecond
	longLease  = time.Minute
)

// topicStore is a table in the cluster, of the topics orders (wrapped or not)
// and elsewhere (any).
func topicStore(t *testing.T, c *kfake.Cluster, wrapped bool, lease time.Duration) *store.Topic {
	t.Helper()
	src, err := store.OpenTopic(patient(t), store.TopicConfig{
		KafkaOpts: []kgo.Opt{kgo.SeedBrokers(c.ListenAddrs()...)}, Create: true, Empty: true,
		Heartbeat: 20 * time.Millisecond, Lease: lease, Renewal: lease / 4,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := src.Close(); err != nil {
			t.Error(err)
		}
	})
	spec := pinned(4, map[string]int32{"acme": 0})
	spec.Wrapped, spec.Epoch = wrapped, 1
	change(t, src, routing.SetTopic("orders", spec), routing.SetTopic("elsewhere", routing.TopicSpec{Partitions: 1}))
	return src
}

func change(t *testing.T, src *store.Topic, edits ...routing.Edit) uint64 {
	t.Helper()
	table, err := src.Update(patient(t), store.Author{Actor: "test", Reason: "test"},
		func(present *routing.Table) (*routing.Table, error) { return present.Edit(edits...) })
	if err != nil {
		t.Fatal(err)
	}
	return table.Revision()
}

func TestAProducerOfAWrappedTopicRegistersBeforeItRoutes(t *testing.T) {
	c := cluster(t, 4, kfake.SeedTopics(1, "elsewhere"))
	src := topicStore(t, c, true, longLease)
	p := producing(t, c, src, ProducerConfig{}, kgo.ClientID("billing"))
	if err := p.ProduceSync(patient(t), record("acme", 1)).FirstErr(); err != nil {
		t.Fatal(err)
	}
	sessions, err := src.Sessions(patient(t))
	if err != nil || len(sessions) != 1 || sessions[0].ID != p.Session() || sessions[0].Client != "billing" || len(sessions[0].Topics) != 2 {
		t.Fatalf("sessions %+v, %v", sessions, err)
	}
	if err := p.Close(patient(t)); err != nil {
		t.Fatal(err)
	}
	if sessions, err := src.Sessions(patient(t)); err != nil || len(sessions) != 0 {
		t.Errorf("sessions after Close: %+v, %v", sessions, err)
	}
}

func TestAChangeIsAwaitedAtTheProducersRecords(t *testing.T) {
	c := cluster(t, 4, kfake.SeedTopics(1, "elsewhere"))
	src := topicStore(t, c, true, longLease)
	p := producing(t, c, src, ProducerConfig{})
	if err := p.ProduceSync(patient(t), record("acme", 0)).FirstErr(); err != nil {
		t.Fatal(err)
	}
	fault := withoutLeader(c, 0)
	defer fault.Remove()
	var o outcome
	p.Produce(context.Background(), record("acme", 1), o.promise())
	revision := change(t, src, routing.SetPlacement("orders", "globex", routing.Placement{Partitions: []int32{2}}))
	if err := p.WaitRevision(patient(t), revision); err != nil {
		t.Fatal(err)
	}
	if got := p.oldestRevision(); got != revision-1 {
		t.Errorf("the oldest revision in flight is %d", got)
	}
	ctx, cancel := context.WithTimeout(patient(t), 300*time.Millisecond)
	defer cancel()
	if _, err := src.AwaitSessions(ctx, revision); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nobody waited for the record in flight: %v", err)
	}
	fault.Remove()
	o.ok(t)
	if over, err := src.AwaitSessions(patient(t), revision); err != nil || len(over) != 0 {
		t.Errorf("over %v, %v", over, err)
	}
}

func TestAWrappedTopicStopsWithItsLeaseAndOthersGoOn(t *testing.T) {
	c := cluster(t, 4, kfake.SeedTopics(1, "elsewhere"))
	src := topicStore(t, c, true, shortLease)
	p := producing(t, c, src, ProducerConfig{})
	eventually(t, "a lease", func() bool { return p.ProduceSync(patient(t), record("acme", 1)).FirstErr() == nil })
	away := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "tenantlane.sessions", Err: kerr.InvalidRecord, Count: -1})
	defer away.Remove()
	eventually(t, "the lease is over", func() bool { return p.member.present().Err() != nil })
	if err := p.ProduceSync(patient(t), record("acme", 2)).FirstErr(); !errors.Is(err, store.ErrStaleTable) {
		t.Errorf("error is %v", err)
	}
	beside := &kgo.Record{Topic: "elsewhere", Key: []byte("acme")}
	if err := p.ProduceSync(patient(t), beside).FirstErr(); err != nil {
		t.Errorf("a topic with producers: any: %v", err)
	}
	away.Remove()
	eventually(t, "a new lease", func() bool { return p.ProduceSync(patient(t), record("acme", 3)).FirstErr() == nil })
}

func TestAnAcknowledgementAfterTheLeaseWaitsForTheNext(t *testing.T) {
	c := cluster(t, 4, kfake.SeedTopics(1, "elsewhere"))
	src := topicStore(t, c, true, shortLease)
	p := producing(t, c, src, ProducerConfig{})
	eventually(t, "a lease", func() bool { return p.ProduceSync(patient(t), record("acme", 1)).FirstErr() == nil })
	slow := withoutLeader(c, 0)
	defer slow.Remove()
	var o outcome
	p.Produce(context.Background(), record("acme", "late"), o.promise())
	away := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "tenantlane.sessions", Err: kerr.InvalidRecord, Count: -1})
	defer away.Remove()
	eventually(t, "the lease is over", func() bool { return p.member.present().Err() != nil })
	slow.Remove()
	eventually(t, "the record is written", func() bool { return p.moves.late.Load() == 1 })
	away.Remove()
	o.ok(t)
	p.empty(t)
}

func TestATopicForAnyProducerDoesNotWaitForARegistration(t *testing.T) {
	c := cluster(t, 4, kfake.SeedTopics(1, "elsewhere"))
	src := topicStore(t, c, false, longLease)
	away := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "tenantlane.routing", Err: kerr.TopicAuthorizationFailed, Count: -1})
	defer away.Remove()
	p := producing(t, c, src, ProducerConfig{})
	if err := p.ProduceSync(patient(t), record("acme", 1)).FirstErr(); err != nil {
		t.Error(err)
	}
}

func TestAWrappedTopicWaitsForItsRegistrationOnlyAsLongAsItsCaller(t *testing.T) {
	c := cluster(t, 4, kfake.SeedTopics(1, "elsewhere"))
	src := topicStore(t, c, true, longLease)
	away := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "tenantlane.routing", Err: kerr.TopicAuthorizationFailed, Count: -1})
	defer away.Remove()
	p := producing(t, c, src, ProducerConfig{})
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := p.ProduceSync(ctx, record("acme", 1)).FirstErr(); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error is %v", err)
	}
	var closed outcome
	var blocked sync.WaitGroup
	blocked.Go(func() { p.Produce(context.Background(), record("acme", 2), closed.promise()) })
	over, end := context.WithCancel(context.Background())
	end()
	_ = p.Close(over)
	blocked.Wait()
	if err := closed.wait(t)[0]; !errors.Is(err, ErrClosed) {
		t.Errorf("error is %v", err)
	}
}

func TestRevisionsCountWhatIsInFlight(t *testing.T) {
	r := &revisions{}
	r.newest.Store(&revision{})
	if got := r.oldest(5); got != 5 {
		t.Errorf("nothing in flight: %d", got)
	}
	five := r.enter(5)
	seven := r.enter(7)
	six := r.enter(6) // by a table that was replaced meanwhile
	for _, step := range []struct {
		leave *revision
		want  uint64
	}{{nil, 5}, {five, 6}, {six, 7}, {seven, 9}} {
		if step.leave != nil {
			step.leave.inFlight.Add(-1)
		}
		if got := r.oldest(9); got != step.want {
			t.Errorf("oldest is %d, want %d", got, step.want)
		}
	}
	if len(r.older) != 0 {
		t.Errorf("%d revisions remembered", len(r.older))
	}
}
