package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tenantlane/tenantlane/consumer"
	"github.com/tenantlane/tenantlane/consumer/offset"
)

// parking is a handler that parks tenant "bad" and notes the others.
func (j *journal) parking(ctx context.Context, r *consumer.Record) error {
	if string(r.Tenant) == "bad" {
		return consumer.Permanent(errors.New("cannot be handled"))
	}
	return j.handle(ctx, r)
}

// parked leaves a group whose commit says: all is done but for tenant "bad",
// from offset 0 on.
func (c *cluster) parked(t *testing.T, others int) {
	t.Helper()
	c.produce(record(0, "bad", "1"))
	c.produce(spread(1, others, 1, 1)...)
	j := newJournal()
	w := c.start(c.config(), j.parking)
	j.waitFor(t, others)
	c.waitFrontier(t, 0, int64(others+1), 1)
	if err := w.stop(); err != nil {
		t.Fatalf("Run: %v", err)
	}
}

// commit replaces what the group committed.
func (c *cluster) commit(t *testing.T, at int64, metadata string) {
	t.Helper()
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: topic, Partition: 0, At: at, LeaderEpoch: -1, Metadata: metadata})
	if err := kadm.NewClient(c.producer).CommitAllOffsets(t.Context(), group, offsets); err != nil {
		t.Fatalf("committing: %v", err)
	}
}

func (c *cluster) metadata() string { return c.GroupInfo(group).Commits[topic][0].Metadata }

// counter reads a counter with one label.
func counter(t *testing.T, g prometheus.Gatherer, name, label string) float64 {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatalf("gathering: %v", err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			if m.GetLabel()[0].GetValue() == label {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

// Whatever makes metadata count for nothing costs repeats, never a loss.
func TestIgnoredMetadataCostsRepeatsAndNoLoss(t *testing.T) {
	t.Parallel()
	const others = 20
	for _, c := range []struct {
		name   string
		reason offset.Reason
		change func(t *testing.T, c *cluster, cfg *consumer.Config)
		from   int64 // where everything is handled again
	}{
		{"foreign text", offset.Foreign, func(t *testing.T, c *cluster, _ *consumer.Config) {
			c.commit(t, 0, "consumer-1-member-id")
		}, 0},
		{"offset changed and metadata kept", offset.Moved, func(t *testing.T, c *cluster, _ *consumer.Config) {
			c.commit(t, 5, c.metadata())
		}, 5},
		{"damaged text", offset.Corrupt, func(t *testing.T, c *cluster, _ *consumer.Config) {
			text := []byte(c.metadata())
			mid := &text[len(text)/2]
			*mid = map[bool]byte{true: 'B', false: 'A'}[*mid == 'A'] // still base64, or it is foreign text
			c.commit(t, 0, string(text))
		}, 0},
		{"lane keys formed otherwise", offset.Fingerprint, func(_ *testing.T, _ *cluster, cfg *consumer.Config) {
			cfg.Order, cfg.OrderKeyVersion = consumer.OrderKeys, "v2"
			cfg.OrderKey = func(*kgo.Record) []byte { return nil }
		}, 0},
		{"order key without a version", offset.Fingerprint, func(_ *testing.T, _ *cluster, cfg *consumer.Config) {
			cfg.Order, cfg.OrderKey = consumer.OrderKeys, func(*kgo.Record) []byte { return nil }
		}, 0},
		{"leader epoch cannot be asked", offset.NoEpoch, func(_ *testing.T, c *cluster, _ *consumer.Config) {
			c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetForLeaderEpoch}, Err: kerr.UnknownServerError, Count: -1})
		}, 0},
		{"log cut below the frontier", offset.Truncated, func(t *testing.T, c *cluster, _ *consumer.Config) {
			c.ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(req kmsg.Request) (kmsg.Response, error, bool) {
				c.KeepControl()
				return shortLog(req.(*kmsg.OffsetForLeaderEpochRequest)), nil, true
			})
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			broker := newCluster(t, 1)
			broker.parked(t, others)
			cfg := broker.config()
			c.change(t, broker, &cfg)
			registry := prometheus.NewRegistry()
			cfg.Registerer = registry
			j := newJournal()
			w := broker.start(cfg, j.parking)
			want := others + 1 - max(int(c.from), 1)
			j.waitFor(t, want)
			if n := counter(t, registry, "tenantlane_consumer_ignored_metadata_total", c.reason.String()); n != 1 {
				t.Errorf("ignored %v times for reason %v, want once", n, c.reason)
			}
			broker.produce(record(0, "new", "1"))
			j.waitFor(t, want+1)
			if err := w.stop(); err != nil {
				t.Fatalf("Run: %v", err)
			}
		})
	}
}

// shortLog answers that every epoch ends at offset 3.
func shortLog(req *kmsg.OffsetForLeaderEpochRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
	for _, t := range req.Topics {
		rt := kmsg.NewOffsetForLeaderEpochResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			rp.Partition, rp.LeaderEpoch, rp.EndOffset = p.Partition, p.LeaderEpoch, 3
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

func TestMetadataThatABrokerRefusesIsHalvedUntilItIsTaken(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	refused := c.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.OffsetMetadataTooLarge, Count: -1,
		When: func(req kmsg.Request) bool {
			for _, t := range req.(*kmsg.OffsetCommitRequest).Topics {
				for _, p := range t.Partitions {
					if p.Metadata != nil && len(*p.Metadata) > 200 {
						return true
					}
				}
			}
			return false
		},
	})
	c.produce(spread(1, 60, 1, 1)...)
	c.produce(record(0, "good", "1"))
	j := newJournal()
	w := c.start(c.config(), func(ctx context.Context, r *consumer.Record) error {
		if strings.HasPrefix(string(r.Tenant), "tenant-") {
			return consumer.Permanent(errors.New("sixty lanes are parked"))
		}
		return j.handle(ctx, r)
	})
	j.waitFor(t, 1)
	c.eventually(t, "a commit that names fewer lanes", func() bool {
		info := c.GroupInfo(group)
		if info == nil {
			return false
		}
		said, why := offset.Decode(info.Commits[topic][0].Metadata)
		return why == offset.Valid && len(said.Lanes) > 0 && len(said.Lanes) < 60
	})
	if refused.Hits() == 0 {
		t.Error("no commit was refused")
	}
	if err := w.stop(); err != nil {
		t.Fatalf("Run: %v", err)
	}
}

func TestParkedRecordsThatRetentionDeletesHarmNobodyElse(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	c.parked(t, 10)
	if err := c.DeleteRecords(topic, 0, 4); err != nil {
		t.Fatalf("deleting records: %v", err)
	}
	registry := prometheus.NewRegistry()
	cfg := c.config()
	cfg.Registerer = registry
	j, l := newJournal(), newLedger()
	w := c.start(l.watch(cfg), j.parking)
	c.produce(record(0, "new", "1"))
	l.waitCommitted(t, 0, 12)
	if n := counter(t, registry, "tenantlane_consumer_lost_records_total", "0"); n < 1 {
		t.Error("nothing was counted as lost")
	}
	if err := w.stop(); err != nil {
		t.Fatalf("Run: %v", err)
	}
	if got := fmt.Sprint(j.all()); len(j.all()) != 1 {
		t.Errorf("handled %s, want the new record alone", got)
	}
}

func TestStaticMemberComesBackWithoutARebalance(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	cfg := c.config()
	cfg.InstanceID = "worker-1"
	joins := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.LeaveGroup}, Observe: true, Count: -1})
	j := newJournal()
	for i := range 2 {
		c.produce(spread(2, 4, i+1, 1)...)
		w := c.start(cfg, j.handle)
		j.waitFor(t, 4*(i+1))
		if err := w.stop(); err != nil {
			t.Fatalf("Run: %v", err)
		}
	}
	if joins.Hits() != 0 {
		t.Errorf("the member left the group %d times", joins.Hits())
	}
	if len(j.all()) != 8 {
		t.Errorf("%d handlings, want 8", len(j.all()))
	}
}

func TestBrokersMayAssignPartitions(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 4)
	cfg := c.config()
	cfg.ServerAssignor = true
	heartbeats := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ConsumerGroupHeartbeat}, Observe: true, Count: -1})
	c.produce(spread(4, 8, 1, 20)...)
	j := newJournal()
	l1, l2 := newLedger(), newLedger()
	first := c.start(l1.watch(cfg), j.handle)
	l1.waitAssigned(t, 4)
	second := c.start(l2.watch(cfg), j.handle)
	l2.waitAssigned(t, 1)
	c.produce(spread(4, 8, 21, 20)...)
	j.waitFor(t, 8*40)
	if err := errors.Join(first.stop(), second.stop()); err != nil {
		t.Fatalf("Run: %v", err)
	}
	assertOrder(t, j.all())
	if len(j.all()) != 8*40 || heartbeats.Hits() == 0 {
		t.Errorf("%d handlings of %d, %d heartbeats of the new protocol", len(j.all()), 8*40, heartbeats.Hits())
	}
}
