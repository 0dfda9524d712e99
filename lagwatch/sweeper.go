package lagwatch

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// quarantineSuffix ends the name of the topic of a topic's stale records, as
// workers write them.
const quarantineSuffix = ".tl-quarantine"

// sweep asks once an hour about the topics of the table, whoever reads them.
func (r *round) sweep(ctx context.Context) {
	if r.cfg.Table == nil || r.at.Sub(r.sweptAt) < sweepEvery {
		return
	}
	table := r.cfg.Table.Table()
	swept := map[string]*SweptTopic{}
	for _, name := range table.TopicNames() {
		if r.cfg.watchesTopic(name) {
			swept[name] = &SweptTopic{Topic: name, Partitions: -1, Quarantined: Unread}
		}
	}
	if len(swept) == 0 {
		return
	}
	quarantines, complete := r.sweptPartitions(ctx, swept)
	var topics []kmsg.ListOffsetsRequestTopic
	for _, name := range table.TopicNames() {
		if t := swept[name]; t != nil && t.Partitions > 0 {
			topics = append(topics, allPartitions(name, t.Partitions))
		}
	}
	r.sweepOffsets(ctx, swept, topics)
	r.countQuarantine(ctx, swept, quarantines)
	out := &SweepSnapshot{}
	for _, name := range table.TopicNames() {
		if t := swept[name]; t != nil {
			out.Topics = append(out.Topics, *t)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.snap.Sweep, r.sweepSeen = out, out
	if complete && ctx.Err() == nil { // else again in the next round
		r.sweptAt = r.at
	}
}

// sweptPartitions learns how many partitions the topics and their quarantines
// have. That a topic does not exist is an answer here.
func (r *round) sweptPartitions(ctx context.Context, swept map[string]*SweptTopic) (quarantines map[string]int, complete bool) {
	quarantines = map[string]int{}
	req := kmsg.NewPtrMetadataRequest()
	for name := range swept {
		for _, n := range []string{name, name + quarantineSuffix} {
			t := kmsg.NewMetadataRequestTopic()
			t.Topic = new(n)
			req.Topics = append(req.Topics, t)
		}
	}
	resp, err := req.RequestWith(ctx, r.client)
	if err != nil {
		r.fail("metadata of the table's topics", err)
		return quarantines, false
	}
	complete = true
	for _, t := range resp.Topics {
		if t.Topic == nil {
			continue
		}
		err := kerr.ErrorForCode(t.ErrorCode)
		missing := errors.Is(err, kerr.UnknownTopicOrPartition)
		complete = complete && (err == nil || missing)
		switch known := err == nil || missing; {
		case known && swept[*t.Topic] != nil:
			swept[*t.Topic].Partitions = len(t.Partitions)
		case known:
			quarantines[*t.Topic] = len(t.Partitions)
		}
	}
	return quarantines, complete
}

func allPartitions(name string, n int) kmsg.ListOffsetsRequestTopic {
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = name
	t.Partitions = make([]kmsg.ListOffsetsRequestTopicPartition, n)
	for p := range t.Partitions {
		t.Partitions[p] = kmsg.NewListOffsetsRequestTopicPartition()
		t.Partitions[p].Partition = int32(p)
	}
	return t
}

// sweepOffsets asks where the topics begin and end, and where they were a day,
// a week and a month ago.
func (r *round) sweepOffsets(ctx context.Context, swept map[string]*SweptTopic, topics []kmsg.ListOffsetsRequestTopic) {
	ago := func(d time.Duration) int64 { return r.at.Add(-d).UnixMilli() }
	for _, ask := range []struct {
		at   int64
		into func(*SweptTopic) *[]int64
	}{
		{-2, func(t *SweptTopic) *[]int64 { return &t.Start }},
		// Before the times: what comes meanwhile is then in none of them. After
		// them it would look like records that are all older.
		{-1, func(t *SweptTopic) *[]int64 { return &t.End }},
		{ago(24 * time.Hour), func(t *SweptTopic) *[]int64 { return &t.Day }},
		{ago(7 * 24 * time.Hour), func(t *SweptTopic) *[]int64 { return &t.Week }},
		{ago(unusedAfter), func(t *SweptTopic) *[]int64 { return &t.Month }},
	} {
		r.listOf(ctx, topics, ask.at, func(topic string, p int32, o int64) {
			into := ask.into(swept[topic])
			*into = put(*into, p, o)
		})
	}
}

// countQuarantine counts what lies in the quarantines.
func (r *round) countQuarantine(ctx context.Context, swept map[string]*SweptTopic, quarantines map[string]int) {
	var topics []kmsg.ListOffsetsRequestTopic
	for name, n := range quarantines {
		if n > 0 {
			topics = append(topics, allPartitions(name, n))
		}
	}
	start, end := map[string][]int64{}, map[string][]int64{}
	for _, ask := range []struct {
		at   int64
		into map[string][]int64
	}{{-2, start}, {-1, end}} {
		r.listOf(ctx, topics, ask.at, func(topic string, p int32, o int64) { ask.into[topic] = put(ask.into[topic], p, o) })
	}
	for topic, t := range swept {
		name := topic + quarantineSuffix
		n, told := quarantines[name]
		if !told {
			continue
		}
		t.Quarantined = 0
		for p := range n {
			from, to := offsetOf(start[name], p), offsetOf(end[name], p)
			if from < 0 || to < 0 {
				t.Quarantined = Unread
				break
			}
			t.Quarantined += to - from
		}
	}
}

// listOf is list for topics that are not of this round.
func (r *round) listOf(ctx context.Context, topics []kmsg.ListOffsetsRequestTopic, timestamp int64, take func(topic string, p int32, o int64)) {
	r.listEach(ctx, topics, timestamp, 0, func(t *kmsg.ListOffsetsResponseTopic) {
		for i := range t.Partitions {
			if t.Partitions[i].ErrorCode == 0 { // else it stays unread
				take(t.Topic, t.Partitions[i].Partition, t.Partitions[i].Offset)
			}
		}
	})
}
