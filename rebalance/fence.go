package rebalance

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// fenceValue is what a fence holds: not nothing, which would delete its key in
// a compacted topic.
const fenceValue = "tenantlane: records of this unit end here"

// fenceRecord is the fence of a move in one partition.
func fenceRecord(topic string, m *routing.Move, partition int32) *kgo.Record {
	control := routing.Control{Kind: routing.ControlFence, Move: m.ID, Unit: m.Unit(), Epoch: m.Epoch}
	return &kgo.Record{
		Topic: topic, Partition: partition, Key: routing.ControlKey(m.ID), Value: []byte(fenceValue),
		Headers: []kgo.RecordHeader{{Key: routing.HeaderControl, Value: control.Append(nil)}},
	}
}

// writeFences writes a fence into each old partition and gives their offsets,
// ascending by partition. After an error some may be written, or yet to come:
// they are void unless the table names them.
func (c *LiveCoordinator) writeFences(ctx context.Context, topic string, m *routing.Move) ([]routing.Fence, error) {
	type answer struct {
		fence routing.Fence
		err   error
	}
	answers := make(chan answer, len(m.From)) // room for all: promises outlive a ctx that ends
	for _, partition := range m.From {
		c.client.Produce(ctx, fenceRecord(topic, m, partition), func(r *kgo.Record, err error) {
			answers <- answer{routing.Fence{Partition: r.Partition, Offset: r.Offset}, err}
		})
	}
	fences := make([]routing.Fence, 0, len(m.From))
	for range m.From {
		select {
		case a := <-answers:
			if a.err != nil {
				return nil, fmt.Errorf("fence in partition %d: %w", a.fence.Partition, a.err)
			}
			fences = append(fences, a.fence)
		case <-ctx.Done():
			return nil, fmt.Errorf("fences, %d of %d written: %w", len(fences), len(m.From), ctx.Err())
		}
	}
	slices.SortFunc(fences, func(a, b routing.Fence) int { return cmp.Compare(a.Partition, b.Partition) })
	return fences, nil
}
