package lagwatch

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/lagwatch/lag"
)

// hanging asks who holds a partition's last stable offset back.
type hanging struct {
	pairKey
	alert     string
	partition int32
}

// hangings lists the open alerts of that kind whose producer is not known.
func (e *engine) hangings() (out []hanging) {
	for _, key := range e.order {
		for i := range e.pairs[key].verdict.Alerts {
			a := &e.pairs[key].verdict.Alerts[i]
			id := alertID(key, a)
			if a.Name == lag.AlertTxnHanging && len(a.Partitions) > 0 && e.producers[id] == "" {
				out = append(out, hanging{key, id, a.Partitions[0]})
			}
		}
	}
	return out
}

// nameProducers finds the producers of hanging transactions. Without the
// permission the alert stays without a name.
func (w *Watcher) nameProducers(ctx context.Context, client *kgo.Client) {
	hangings := w.engine.hangings()
	if len(hangings) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, attributeTime)
	defer cancel()
	for _, h := range hangings {
		name, err := oldestTransaction(ctx, client, h.topic, h.partition)
		if err != nil {
			w.log.Warn("cannot see whose transaction hangs", zap.String("topic", h.topic), zap.Int32("partition", h.partition), zap.Error(err))
			continue
		}
		w.engine.producers[h.alert] = name
	}
}

// oldestTransaction describes the open transaction that began first in a
// partition: its producer id, and its transactional id if that can be seen.
func oldestTransaction(ctx context.Context, client *kgo.Client, topic string, partition int32) (string, error) {
	req := kmsg.NewPtrDescribeProducersRequest()
	t := kmsg.NewDescribeProducersRequestTopic()
	t.Topic, t.Partitions = topic, []int32{partition}
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return "", fmt.Errorf("describe producers: %w", err)
	}
	producer, start := int64(-1), int64(-1)
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return "", fmt.Errorf("describe producers: %w", err)
			}
			for _, a := range p.ActiveProducers {
				if at := a.CurrentTxnStartOffset; at >= 0 && (start < 0 || at < start) {
					producer, start = a.ProducerID, at
				}
			}
		}
	}
	if start < 0 {
		return "", errors.New("no producer has an open transaction")
	}
	name := fmt.Sprintf("producer %d, open since offset %d", producer, start)
	if id := transactionalID(ctx, client, producer); id != "" {
		name = fmt.Sprintf("producer %d (transactional id %q), open since offset %d", producer, id, start)
	}
	return name, nil
}

// transactionalID is a producer's, or "" when no coordinator tells it.
func transactionalID(ctx context.Context, client *kgo.Client, producer int64) string {
	req := kmsg.NewPtrListTransactionsRequest()
	req.ProducerIDFilters = []int64{producer}
	for _, shard := range client.RequestSharded(ctx, req) {
		if shard.Err != nil {
			continue // the alert names the producer's id already
		}
		for _, t := range shard.Resp.(*kmsg.ListTransactionsResponse).TransactionStates {
			if t.ProducerID == producer {
				return t.TransactionalID
			}
		}
	}
	return ""
}
