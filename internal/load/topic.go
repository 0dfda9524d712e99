package load

import (
	"context"
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/internal/sample"
	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// ReadTopic visits every checkable record that a topic holds at the time of
// the call, with where it lies, partition after partition in offset order, from one goroutine at a
// time. Control records are left out; foreign counts the others that are not
// the load generator's. An error names the partition that could not be read.
func ReadTopic(ctx context.Context, client *kgo.Client, topic string, visit func(v Value, partition int32, offset int64)) (foreign int64, err error) {
	reader, err := sample.NewReader(client, sample.Config{MaxBytes: 4 << 20})
	if err != nil {
		return 0, fmt.Errorf("topic %s: %w", topic, err)
	}
	spans, err := reader.Tail(ctx, topic, math.MaxInt64)
	if err != nil {
		return 0, err
	}
	for _, span := range spans {
		err := reader.Range(ctx, topic, span, func(r *kgo.Record) bool {
			switch v, err := Decode(r.Value); {
			case isControl(r):
			case err != nil:
				foreign++
			default:
				visit(v, r.Partition, r.Offset)
			}
			return true
		})
		if err != nil {
			return foreign, err
		}
	}
	return foreign, nil
}

func isControl(r *kgo.Record) bool {
	for _, h := range r.Headers {
		if h.Key == routing.HeaderControl {
			return true
		}
	}
	return r.Attrs.IsControl()
}
