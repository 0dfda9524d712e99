package partitioner

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// maybeWritten tells whether a record that failed with err may have reached a
// broker, or reach it yet: any that was not refused on this side.
func maybeWritten(err error) bool {
	var refused *RouteError
	return !errors.As(err, &refused)
}

// confirm makes sure that no failed record of the tenant is written later. kgo
// cannot take back what it has sent, but it raises its producer epoch after a
// failure; once the broker has a record of the new epoch, it rejects what is
// left of the old one. Any later record does, so this writes one only where a
// failure was the last that happened.
func (p *Producer) confirm(ctx context.Context, topic string, tenant []byte) error {
	route, name, ok := p.src.Table().Route(topic, tenant, nil)
	if !ok {
		return nil
	}
	for _, index := range route.Partitions {
		part := p.destOf(name).part(index)
		if !part.doubtful() {
			continue
		}
		if err := p.barrier(ctx, part, tenant, route.Epoch); err != nil {
			return fmt.Errorf("producer: barrier after a failed record in topic %s partition %d: %w", name, index, err)
		}
		part.confirmed()
	}
	return nil
}

// barrier writes a control record, which workers pass over, and waits for it.
func (p *Producer) barrier(ctx context.Context, part *partition, tenant []byte, epoch uint64) error {
	session := hex.EncodeToString(p.session[:])
	control := routing.Control{
		Kind: routing.ControlBarrier, Move: session, Unit: routing.Unit{Tenant: string(tenant)}, Epoch: epoch,
	}
	r := &kgo.Record{
		Topic: part.dest.name, Key: routing.ControlKey(session), Value: []byte(control.Kind.String()),
		Headers: []kgo.RecordHeader{{Key: routing.HeaderControl, Value: control.Append(nil)}},
	}
	f := newFlight(ctx, r, nil)
	f.partition, f.part = part.index, part
	answer := make(chan error, 1)
	p.pending.add()
	p.client.Produce(f, &f.rec, func(_ *kgo.Record, err error) { //nolint:contextcheck // f stands for ctx, without its end
		answer <- err
		p.pending.done()
	})
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
