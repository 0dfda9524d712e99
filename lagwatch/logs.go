package lagwatch

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// metadata learns ids and partition counts of the topics of the inventory that
// this round has not asked for, and the cluster's id.
func (r *round) metadata(ctx context.Context) {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	for _, name := range r.inv.topicNames() {
		if r.topicAt[name] == nil {
			t := kmsg.NewMetadataRequestTopic()
			t.Topic = new(name)
			req.Topics = append(req.Topics, t)
		}
	}
	r.shards(ctx, req, "metadata", func(resp kmsg.Response) {
		m := resp.(*kmsg.MetadataResponse)
		r.mu.Lock()
		defer r.mu.Unlock()
		if m.ClusterID != nil {
			r.clusterID = *m.ClusterID
			r.snap.Cluster = cmp.Or(r.snap.Cluster, r.clusterID)
		}
		for i := range m.Topics {
			r.takeTopicMetadata(&m.Topics[i])
		}
	})
}

// takeTopicMetadata records one topic; mu is held.
func (r *round) takeTopicMetadata(t *kmsg.MetadataResponseTopic) {
	if t.Topic == nil {
		return
	}
	entry, watched := r.inv.topics[*t.Topic]
	if !watched {
		return
	}
	out := &TopicSnapshot{Topic: *t.Topic}
	r.topicAt[*t.Topic] = out
	err := kerr.ErrorForCode(t.ErrorCode)
	absent(&entry.AbsentSince, r.at, errors.Is(err, kerr.UnknownTopicOrPartition))
	if err != nil {
		r.failLocked(fmt.Sprintf("metadata of topic %q", *t.Topic), err)
		return
	}
	out.Known = true
	out.Retention = entry.retention
	if t.TopicID != ([16]byte{}) {
		out.ID = hex.EncodeToString(t.TopicID[:])
	}
	for _, p := range t.Partitions {
		entry.Partitions = max(entry.Partitions, int(p.Partition)+1)
		if p.ErrorCode == 0 && p.Leader >= 0 {
			out.Leaders = put32(out.Leaders, p.Partition, p.Leader+1)
		}
	}
}

// listOffsets asks for starts, ends and stable offsets of every partition, and
// once for the ends at earlier times. Commits were asked for before, so that
// lag is not negative by racing.
func (r *round) listOffsets(ctx context.Context) {
	r.metadata(ctx)
	parts := r.partitions(func(*topicEntry) bool { return true })
	fresh := r.partitions(func(t *topicEntry) bool { return !t.seeded })
	asks := []func(context.Context){
		func(ctx context.Context) {
			r.list(ctx, parts, -2, 0, func(t *TopicSnapshot, p int32, o int64) { t.Start = put(t.Start, p, o) })
		},
		func(ctx context.Context) {
			r.list(ctx, parts, -1, 0, func(t *TopicSnapshot, p int32, o int64) { t.End = put(t.End, p, o) })
		},
		func(ctx context.Context) {
			r.list(ctx, parts, -1, 1, func(t *TopicSnapshot, p int32, o int64) { t.Stable = put(t.Stable, p, o) })
		},
		r.retention,
		r.sweep,
		r.sizes,
	}
	for i, age := range r.seeds {
		at := r.at.Add(-age)
		asks = append(asks, func(ctx context.Context) {
			r.list(ctx, fresh, at.UnixMilli(), 0, func(t *TopicSnapshot, p int32, o int64) { t.past(i, at, p, o) })
		})
	}
	r.stage(ctx, asks...)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range fresh {
		r.inv.topics[t.Topic].seeded = true
	}
}

// past records where the end of a partition was at an earlier time. None means
// that no record is newer: the end was where it is now.
func (t *TopicSnapshot) past(i int, at time.Time, partition int32, o int64) {
	for len(t.Past) <= i {
		t.Past = append(t.Past, PastEnds{})
	}
	t.Past[i].At = at
	t.Past[i].Ends = put(t.Past[i].Ends, partition, o)
}

// partitions lists the partitions of known topics that are wanted.
func (r *round) partitions(want func(*topicEntry) bool) []kmsg.ListOffsetsRequestTopic {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []kmsg.ListOffsetsRequestTopic
	for _, name := range r.inv.topicNames() {
		entry := r.inv.topics[name]
		if t := r.topicAt[name]; t == nil || !t.Known || !want(entry) {
			continue
		}
		out = append(out, allPartitions(name, entry.Partitions))
	}
	return out
}

// list asks for the offset at a timestamp (−1: end, −2: start) of partitions.
func (r *round) list(ctx context.Context, topics []kmsg.ListOffsetsRequestTopic, timestamp int64, isolation int8, take func(*TopicSnapshot, int32, int64)) {
	r.listEach(ctx, topics, timestamp, isolation, func(t *kmsg.ListOffsetsResponseTopic) { r.takeOffsets(t, take) })
}

// listEach hands over each topic's answer under mu.
func (r *round) listEach(ctx context.Context, topics []kmsg.ListOffsetsRequestTopic, timestamp int64, isolation int8, take func(*kmsg.ListOffsetsResponseTopic)) {
	if len(topics) == 0 {
		return
	}
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	req.IsolationLevel = isolation
	req.Topics = make([]kmsg.ListOffsetsRequestTopic, len(topics))
	for i, t := range topics {
		t.Partitions = append([]kmsg.ListOffsetsRequestTopicPartition(nil), t.Partitions...)
		for p := range t.Partitions {
			t.Partitions[p].Timestamp = timestamp
		}
		req.Topics[i] = t
	}
	r.shards(ctx, req, "listing offsets", func(resp kmsg.Response) {
		r.mu.Lock()
		defer r.mu.Unlock()
		for i := range resp.(*kmsg.ListOffsetsResponse).Topics {
			take(&resp.(*kmsg.ListOffsetsResponse).Topics[i])
		}
	})
}

// takeOffsets records a topic's offsets; mu is held.
func (r *round) takeOffsets(t *kmsg.ListOffsetsResponseTopic, take func(*TopicSnapshot, int32, int64)) {
	out := r.topicAt[t.Topic]
	if out == nil {
		return
	}
	for i := range t.Partitions {
		p := &t.Partitions[i]
		if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
			r.failLocked(fmt.Sprintf("listing offsets of topic %q", t.Topic), err)
			continue
		}
		take(out, p.Partition, p.Offset)
	}
}

// retentionEvery is how long a topic's retention is believed.
const retentionEvery = 10 * time.Minute

// retention learns how long topics keep their records. Without the permission
// it stays unknown, and only the log start's own movement warns of loss.
func (r *round) retention(ctx context.Context) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	r.mu.Lock()
	for _, name := range r.inv.topicNames() {
		entry := r.inv.topics[name]
		if t := r.topicAt[name]; t == nil || !t.Known || r.at.Sub(entry.retentionAt) < retentionEvery {
			continue
		}
		entry.retentionAt = r.at
		res := kmsg.NewDescribeConfigsRequestResource()
		res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeTopic, name
		res.ConfigNames = []string{"retention.ms", "cleanup.policy"}
		req.Resources = append(req.Resources, res)
	}
	r.mu.Unlock()
	if len(req.Resources) == 0 {
		return
	}
	for _, shard := range r.client.RequestSharded(ctx, req) {
		if shard.Err != nil {
			r.cfg.Logger.Debug("retention of topics is unknown: " + shard.Err.Error())
			continue
		}
		r.mu.Lock()
		for _, res := range shard.Resp.(*kmsg.DescribeConfigsResponse).Resources {
			if entry, ok := r.inv.topics[res.ResourceName]; ok && res.ErrorCode == 0 {
				entry.retention = retentionOf(res.Configs)
				r.topicAt[res.ResourceName].Retention = entry.retention
			}
		}
		r.mu.Unlock()
	}
}

// retentionOf is 0 for a topic that keeps its records.
func retentionOf(configs []kmsg.DescribeConfigsResponseResourceConfig) time.Duration {
	var ms int64
	deletes := true
	for _, c := range configs {
		switch {
		case c.Value == nil:
		case c.Name == "retention.ms":
			ms, _ = strconv.ParseInt(*c.Value, 10, 64) // "-1", and anything odd, is unlimited
		case c.Name == "cleanup.policy":
			deletes = strings.Contains(*c.Value, "delete")
		}
	}
	if ms <= 0 || !deletes || ms > int64(100*365*24*time.Hour/time.Millisecond) {
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}

// clientOpts are the watcher's own; the caller's come after and win.
func clientOpts(cfg *Config) []kgo.Opt {
	stage := cfg.SampleTimeout / stages
	return append([]kgo.Opt{
		kgo.ClientID("tenantlane-lagwatch"),
		kgo.RetryTimeout(stage),
		kgo.DialTimeout(stage),
		// A hung broker is given up within a stage, so that others are asked.
		kgo.RequestTimeoutOverhead(max(stage/2, time.Second)),
		kgo.ConnIdleTimeout(time.Minute),
		// How long kgo believes the leaders that a round asked for.
		kgo.MetadataMinAge(min(max(cfg.Rule.Interval, 10*time.Millisecond), 2*time.Second)),
		kgo.MetadataMaxAge(time.Minute),
	}, cfg.KafkaOpts...)
}
