package store

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tenantlane/tenantlane/internal/embedded"
)

// bubble runs a test in virtual time with a broker of its own.
func bubble(t *testing.T, test func(t *testing.T, cfg TopicConfig, cluster *kfake.Cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		network := &kfake.VirtualNetwork{}
		b, err := embedded.Start(embedded.Config{Listen: "127.0.0.1:9092", Options: []kfake.Opt{kfake.ListenFn(network.Listen)}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		}()
		test(t, TopicConfig{
			KafkaOpts: []kgo.Opt{kgo.SeedBrokers(b.Addrs()...), kgo.Dialer(network.DialContext)}, Create: true, Empty: true,
		}, b.Cluster())
	})
}

// opened opens a store within a bubble, to be closed before the bubble ends.
func opened(t *testing.T, cfg TopicConfig) (store *Topic, closeIt func()) {
	t.Helper()
	store, err := OpenTopic(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return store, func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}
}

func register(t *testing.T, store *Topic, cfg SessionConfig) *Session {
	t.Helper()
	s, err := store.Register(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestASessionShowsTheRevisionThatItRoutesBy(t *testing.T) {
	bubble(t, func(t *testing.T, cfg TopicConfig, _ *kfake.Cluster) {
		producer, closeProducer := opened(t, cfg)
		defer closeProducer()
		writer, closeWriter := opened(t, cfg)
		defer closeWriter()
		update(t, writer, orders())
		var inFlight atomic.Uint64
		inFlight.Store(1) // a record routed by revision 1 is in flight
		s := register(t, producer, SessionConfig{Client: "billing", Topics: []string{"orders"}, Revision: func() uint64 {
			return min(inFlight.Load(), producer.Table().Revision())
		}})
		if err := s.Err(); err != nil {
			t.Error(err)
		}
		sessions, err := writer.Sessions(t.Context())
		if err != nil || len(sessions) != 1 || sessions[0].ID != s.ID() || sessions[0].Client != "billing" {
			t.Errorf("sessions are %+v, %v", sessions, err)
		}
		update(t, writer, orders())
		early, done := context.WithTimeout(t.Context(), time.Minute)
		defer done()
		if _, err := writer.AwaitSessions(early, 2); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error is %v, want the session to be waited for while it has a record in flight", err)
		}
		inFlight.Store(2)
		began := time.Now()
		if over, err := writer.AwaitSessions(t.Context(), 2); err != nil || len(over) != 0 {
			t.Errorf("over: %v, %v", over, err)
		}
		if waited := time.Since(began); waited > time.Second {
			t.Errorf("the session took %v to show its revision", waited)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := s.Err(); !errors.Is(err, ErrStaleTable) {
			t.Errorf("error of a closed session is %v", err)
		}
		if sessions, err := writer.Sessions(t.Context()); err != nil || len(sessions) != 0 {
			t.Errorf("sessions are %+v, %v after the end", sessions, err)
		}
	})
}

// block makes the broker answer produce requests for a topic with an error
// that clients retry for ever.
func block(cluster *kfake.Cluster, blocked *atomic.Bool) {
	cluster.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if !blocked.Load() {
			return nil, nil, false
		}
		produce := req.(*kmsg.ProduceRequest)
		resp := produce.ResponseKind().(*kmsg.ProduceResponse)
		for _, topic := range produce.Topics {
			answer := kmsg.NewProduceResponseTopic()
			answer.Topic, answer.TopicID = topic.Topic, topic.TopicID
			for _, p := range topic.Partitions {
				part := kmsg.NewProduceResponseTopicPartition()
				part.Partition, part.ErrorCode = p.Partition, kerr.NotLeaderForPartition.Code
				answer.Partitions = append(answer.Partitions, part)
			}
			resp.Topics = append(resp.Topics, answer)
		}
		return resp, nil, true
	})
}

func TestASessionKnowsThatItsLeaseIsOverBeforeAnyoneElse(t *testing.T) {
	bubble(t, func(t *testing.T, cfg TopicConfig, cluster *kfake.Cluster) {
		store, closeIt := opened(t, cfg)
		defer closeIt()
		update(t, store, orders())
		s := register(t, store, SessionConfig{})
		<-time.After(time.Minute)
		if err := s.Err(); err != nil {
			t.Fatalf("a session that is renewed is stale: %v", err)
		}
		var blocked atomic.Bool
		block(cluster, &blocked)
		blocked.Store(true)
		began := time.Now()
		for s.Err() == nil {
			<-time.After(10 * time.Millisecond)
		}
		if own := time.Since(began); own > DefaultLease {
			t.Errorf("the session noticed after %v, its lease is %v", own, DefaultLease)
		}
		blocked.Store(false)
		for s.Err() != nil && time.Since(began) < 10*time.Minute {
			<-time.After(100 * time.Millisecond)
		}
		if err := s.Err(); err != nil {
			t.Errorf("the session did not register anew: %v", err)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestSessionsThatEndedWithoutATraceAreWaitedForOneLease(t *testing.T) {
	bubble(t, func(t *testing.T, cfg TopicConfig, _ *kfake.Cluster) {
		writer, closeWriter := opened(t, cfg)
		defer closeWriter()
		update(t, writer, orders())
		producer, closeProducer := opened(t, cfg)
		s := register(t, producer, SessionConfig{Client: "killed"})
		s.stop() // as kill -9 would: no word to anyone
		s.running.Wait()
		closeProducer()
		update(t, writer, orders())
		began := time.Now()
		over, err := writer.AwaitSessions(t.Context(), 2)
		if err != nil || len(over) != 1 || over[0].ID != s.ID() {
			t.Fatalf("over: %+v, %v", over, err)
		}
		if waited := time.Since(began); waited < DefaultLease || waited > DefaultLease+2*time.Second {
			t.Errorf("waited %v for a lease of %v", waited, DefaultLease)
		}
		began = time.Now()
		if over, err := writer.AwaitSessions(t.Context(), 2); err != nil || len(over) != 0 || time.Since(began) > time.Second {
			t.Errorf("the session's registration is still there: %v, %v", over, err)
		}
	})
}

func TestASessionGoesStaleWithItsView(t *testing.T) {
	bubble(t, func(t *testing.T, cfg TopicConfig, cluster *kfake.Cluster) {
		store, closeIt := opened(t, cfg)
		defer closeIt()
		update(t, store, orders())
		s := register(t, store, SessionConfig{})
		// The end of the topic is out of sight; leases still go out.
		var hidden atomic.Bool
		hidden.Store(true)
		cluster.ControlKey(int16(kmsg.ListOffsets), func(req kmsg.Request) (kmsg.Response, error, bool) {
			cluster.KeepControl()
			if !hidden.Load() {
				return nil, nil, false
			}
			asked := req.(*kmsg.ListOffsetsRequest)
			resp := asked.ResponseKind().(*kmsg.ListOffsetsResponse)
			for _, topic := range asked.Topics {
				answer := kmsg.NewListOffsetsResponseTopic()
				answer.Topic = topic.Topic
				for _, p := range topic.Partitions {
					part := kmsg.NewListOffsetsResponseTopicPartition()
					part.Partition, part.ErrorCode = p.Partition, kerr.UnknownServerError.Code
					answer.Partitions = append(answer.Partitions, part)
				}
				resp.Topics = append(resp.Topics, answer)
			}
			return resp, nil, true
		})
		<-time.After(DefaultLease + time.Second)
		if err := s.Err(); !errors.Is(err, ErrStaleTable) {
			t.Errorf("error is %v with a view of %v, want ErrStaleTable", err, store.Age())
		}
		hidden.Store(false)
		<-time.After(2 * DefaultLease)
		if err := s.Err(); err != nil {
			t.Errorf("error is %v with a view of %v", err, store.Age())
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
