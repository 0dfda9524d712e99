package store

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// benchmarkBrokers are those of KAFKA_BROKERS, else an embedded one.
func benchmarkBrokers(b *testing.B) []string {
	if addrs := os.Getenv("KAFKA_BROKERS"); addrs != "" {
		return strings.Split(addrs, ",")
	}
	return broker(b)
}

// BenchmarkMoveControl measures the control path of a move, with one producer:
// the time from the begin of the PREPARE to when another store shows it, from
// there to the acknowledgement at the coordinator, and from the begin of the
// SWITCHED to when the other store shows it. KAFKA_BROKERS names a real broker.
func BenchmarkMoveControl(b *testing.B) {
	cfg := quick(benchmarkBrokers(b))
	cfg.Heartbeat, cfg.Prefix = DefaultHeartbeat, "bench"+strconv.FormatInt(time.Now().UnixNano(), 36)+"."
	coordinator, producer := openTopic(b, cfg), openTopic(b, cfg)
	update(b, coordinator, wrappedOrders()...)
	awaitTable(b, producer, 1)
	var ack acknowledging
	s, err := producer.Register(patient(b), SessionConfig{Drained: ack.drained})
	if err != nil {
		b.Fatal(err)
	}
	if err := coordinator.FollowSessions(patient(b)); err != nil {
		b.Fatal(err)
	}
	spans := map[string][]time.Duration{}
	for i := 0; b.Loop(); i++ {
		moveOnce(b, coordinator, producer, s, &ack, strconv.Itoa(i), int32(2+i%2), spans)
	}
	for name, list := range spans {
		slices.Sort(list)
		b.ReportMetric(float64(list[len(list)/2].Microseconds())/1000, name+"-p50-ms")
		b.ReportMetric(float64(list[len(list)*99/100].Microseconds())/1000, name+"-p99-ms")
	}
	b.StopTimer()
	if err := s.Close(patient(b)); err != nil {
		b.Error(err)
	}
	if _, err := coordinator.admin.DeleteTopics(patient(b), cfg.RoutingTopic(), cfg.SessionsTopic(), cfg.HistoryTopic()); err != nil {
		b.Error(err)
	}
}

func moveOnce(b *testing.B, coordinator, producer *Topic, s *Session, ack *acknowledging, id string, partition int32, spans map[string][]time.Duration) {
	revision := coordinator.Table().Revision()
	note := func(name string, since time.Time) { spans[name] = append(spans[name], time.Since(since)) }
	began := time.Now()
	seen := make(chan struct{})
	go func() {
		defer close(seen)
		awaitTable(b, producer, revision+1)
		note("prepare-seen", began)
		ack.id.Store(&id)
		s.Announce()
	}()
	update(b, coordinator, prepare(id, partition))
	committed := time.Now()
	if _, err := coordinator.AwaitDrained(patient(b), id, nil); err != nil {
		b.Fatal(err)
	}
	note("drained-after-commit", committed)
	<-seen
	switching := time.Now()
	update(b, coordinator, routing.SwitchMove("orders", id, []routing.Fence{{Partition: homeOf(b, coordinator), Offset: 7}}))
	note("switch-update", switching)
	awaitTable(b, producer, revision+2)
	note("switch-seen", switching)
	note("whole", began)
	update(b, coordinator, routing.ForgetMove("orders", id))
}

func homeOf(b *testing.B, store *Topic) int32 { return partitionOf(b, store.Table(), "acme") }
