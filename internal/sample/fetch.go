package sample

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fetchAt is one look at one partition.
type fetchAt struct {
	topic     string
	partition int32
	offset    int64
	maxBytes  int32
	isolation kgo.IsolationLevel
}

// fetched is what a look found.
type fetched struct {
	records []*kgo.Record
	next    int64 // where the next look would start
	stable  int64 // last stable offset
}

// fetch makes one look, and a second one when the leader had moved.
func (r *Reader) fetch(ctx context.Context, at fetchAt) (fetched, error) {
	got, err := r.fetchOnce(ctx, at)
	var ke *kerr.Error
	if errors.As(err, &ke) && ke.Retriable {
		r.forget(at.topic)
		got, err = r.fetchOnce(ctx, at)
	}
	return got, err
}

func (r *Reader) fetchOnce(ctx context.Context, at fetchAt) (fetched, error) {
	id, leader, err := r.leader(ctx, at.topic, at.partition)
	if err != nil {
		return fetched{}, err
	}
	resp, err := at.request(id).RequestWith(ctx, r.client.Broker(int(leader)))
	if err != nil {
		r.forget(at.topic)
		return fetched{}, fmt.Errorf("fetch at %d from broker %d: %w", at.offset, leader, err)
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return fetched{}, fmt.Errorf("fetch at %d from broker %d: %w", at.offset, leader, err)
	}
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			if p := &resp.Topics[i].Partitions[j]; p.Partition == at.partition {
				return r.decode(at, p)
			}
		}
	}
	return fetched{}, fmt.Errorf("fetch at %d from broker %d: the answer lacks the partition", at.offset, leader)
}

func (at fetchAt) request(id [16]byte) *kmsg.FetchRequest {
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = at.partition, at.offset, at.maxBytes
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = at.topic, id
	t.Partitions = append(t.Partitions, p)
	req := kmsg.NewPtrFetchRequest()
	req.MaxBytes = at.maxBytes
	req.Topics = append(req.Topics, t)
	if at.isolation == kgo.ReadCommitted() {
		req.IsolationLevel = 1
	}
	return req
}

func (r *Reader) decode(at fetchAt, p *kmsg.FetchResponseTopicPartition) (fetched, error) {
	fp, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
		Offset: at.offset, IsolationLevel: at.isolation, Topic: at.topic, Partition: at.partition,
	}, p, r.unzip, nil)
	if fp.Err != nil {
		return fetched{}, fmt.Errorf("fetch at %d: %w", at.offset, fp.Err)
	}
	return fetched{fp.Records, next, fp.LastStableOffset}, nil
}
