package refetch

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Reader reads ranges of partitions. Its methods may be called from several
// goroutines.
type Reader struct {
	client    *kgo.Client
	isolation kgo.IsolationLevel
	level     int8
	inflate   kgo.Decompressor

	mu sync.Mutex
	// guards leaders
	leaders map[partition]leader
}

type partition struct {
	topic string
	id    int32
}

// leader is where a partition is read.
type leader struct {
	broker int32
	topic  [16]byte // topic id
}

// Chunk is a part of a log.
type Chunk struct {
	Records []*kgo.Record // of [From, Next), ascending, control records included
	From    int64
	Next    int64 // where to read on
	End     int64 // high watermark
	Bytes   int   // of the response's batches, compressed as they came
	AtEnd   bool  // nothing is there beyond From yet
}

// ErrOutOfRange says that an offset is not in the log.
type ErrOutOfRange struct {
	Topic     string
	Partition int32
	Offset    int64
	Start     int64 // the log's start; −1 if it is not known
}

// Error names the offset and the log's start.
func (e *ErrOutOfRange) Error() string {
	return fmt.Sprintf("topic %s partition %d: offset %d is not in the log, which starts at %d", e.Topic, e.Partition, e.Offset, e.Start)
}

// New makes a Reader with a client of its own. The options must not make it a
// member of a group. readCommitted hides the records of open and aborted
// transactions, as the main client must do too.
func New(readCommitted bool, opts ...kgo.Opt) (*Reader, error) {
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("making the client for re-reads: %w", err)
	}
	r := &Reader{
		client: client, isolation: kgo.ReadUncommitted(),
		inflate: kgo.DefaultDecompressor(), leaders: map[partition]leader{},
	}
	if readCommitted {
		r.isolation, r.level = kgo.ReadCommitted(), 1
	}
	return r, nil
}

// Close ends the client. Reads under way fail.
func (r *Reader) Close() { r.client.Close() }

// Read reads a partition from an offset on: at most about maxBytes, but at
// least one batch.
func (r *Reader) Read(ctx context.Context, topic string, id int32, from int64, maxBytes int32) (Chunk, error) {
	p := partition{topic, id}
	chunk, err := r.read(ctx, p, from, maxBytes)
	if err == nil || !leaderMoved(err) {
		return chunk, err
	}
	r.forget(p)
	return r.read(ctx, p, from, maxBytes)
}

// leaderMoved says that asking for metadata may help.
func leaderMoved(err error) bool {
	if _, ok := errors.AsType[*ErrOutOfRange](err); ok {
		return false
	}
	_, answered := errors.AsType[*kerr.Error](err)
	return !answered || kerr.IsRetriable(err)
}

func (r *Reader) forget(p partition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.leaders, p)
}

func (r *Reader) leaderOf(ctx context.Context, p partition) (leader, error) {
	r.mu.Lock()
	l, ok := r.leaders[p]
	r.mu.Unlock()
	if ok {
		return l, nil
	}
	l, err := r.lookUp(ctx, p)
	if err != nil {
		return leader{}, fmt.Errorf("finding the leader of topic %s partition %d: %w", p.topic, p.id, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leaders[p] = l
	return l, nil
}

// lookUp asks a broker. The client's own cache may hold the leader that just
// answered that it is none.
func (r *Reader) lookUp(ctx context.Context, p partition) (leader, error) {
	req := kmsg.NewPtrMetadataRequest()
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = new(p.topic)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(ctx, r.client)
	if err != nil {
		return leader{}, err
	}
	for i := range resp.Topics {
		t := &resp.Topics[i]
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return leader{}, err
		}
		for j := range t.Partitions {
			d := &t.Partitions[j]
			if d.Partition == p.id && d.Leader >= 0 {
				return leader{broker: d.Leader, topic: t.TopicID}, nil
			}
		}
	}
	return leader{}, kerr.LeaderNotAvailable
}

func (r *Reader) read(ctx context.Context, p partition, from int64, maxBytes int32) (Chunk, error) {
	l, err := r.leaderOf(ctx, p)
	if err != nil {
		return Chunk{}, err
	}
	resp, err := r.client.Broker(int(l.broker)).Request(ctx, r.request(p, l, from, maxBytes))
	if err != nil {
		return Chunk{}, fmt.Errorf("re-reading topic %s partition %d at %d: %w", p.topic, p.id, from, err)
	}
	fetch := resp.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(fetch.ErrorCode); err != nil {
		return Chunk{}, fmt.Errorf("re-reading topic %s partition %d: %w", p.topic, p.id, err)
	}
	if len(fetch.Topics) != 1 || len(fetch.Topics[0].Partitions) != 1 {
		return Chunk{}, fmt.Errorf("re-reading topic %s partition %d: the broker answered with another partition", p.topic, p.id)
	}
	return r.parse(p, from, &fetch.Topics[0].Partitions[0])
}

func (r *Reader) request(p partition, l leader, from int64, maxBytes int32) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID = -1
	req.MaxBytes = maxBytes
	req.IsolationLevel = r.level
	req.SessionEpoch = -1 // no session
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic, rt.TopicID = p.topic, l.topic
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes = p.id, from, maxBytes
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

func (r *Reader) parse(p partition, from int64, rp *kmsg.FetchResponseTopicPartition) (Chunk, error) {
	if err := kerr.ErrorForCode(rp.ErrorCode); err != nil {
		if errors.Is(err, kerr.OffsetOutOfRange) {
			return Chunk{}, &ErrOutOfRange{Topic: p.topic, Partition: p.id, Offset: from, Start: rp.LogStartOffset}
		}
		return Chunk{}, fmt.Errorf("re-reading topic %s partition %d at %d: %w", p.topic, p.id, from, err)
	}
	opts := kgo.ProcessFetchPartitionOpts{
		KeepControlRecords: true, Offset: from, IsolationLevel: r.isolation, Topic: p.topic, Partition: p.id,
	}
	fp, next := kgo.ProcessFetchPartition(opts, rp, r.inflate, nil)
	if fp.Err != nil {
		return Chunk{}, fmt.Errorf("re-reading topic %s partition %d at %d: %w", p.topic, p.id, from, fp.Err)
	}
	c := Chunk{Records: fp.Records, From: from, Next: next, End: rp.HighWatermark, Bytes: len(rp.RecordBatches)}
	c.AtEnd = next <= from
	return c, nil
}
