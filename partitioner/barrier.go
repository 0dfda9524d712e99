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

// confirm makes sure that no failed record is written later to any of some
// partitions of a topic. kgo cannot take back what it has sent, but it raises its
// producer epoch after a failure; once the broker has a record of the new epoch,
// it rejects what is left of the old one. Any later record does, so this writes
// one only where a failure was the last that happened: a control record that
// says what about says, which workers pass over.
//
// A transactional client can write none outside of a transaction. There the
// marker that ends the transaction does the same; see EndTransaction.
func (p *Producer) confirm(ctx context.Context, topic string, partitions []int32, about routing.Control) error {
	for _, index := range partitions {
		part := p.destOf(topic).part(index)
		doubt := part.doubts()
		if doubt == 0 {
			continue
		}
		err := errInDoubt
		if !p.txn.possible {
			err = p.barrier(ctx, part, about)
		}
		if err != nil {
			return fmt.Errorf("producer: barrier after a failed record in topic %s partition %d: %w", topic, index, err)
		}
		part.confirmed(doubt)
	}
	return nil
}

var errInDoubt = errors.New("a transaction must end first")

// barrier writes a control record and waits for it.
func (p *Producer) barrier(ctx context.Context, part *partition, about routing.Control) error {
	session := hex.EncodeToString(p.session[:])
	about.Kind, about.Move = routing.ControlBarrier, session
	r := &kgo.Record{
		Topic: part.dest.name, Key: routing.ControlKey(session), Value: []byte(about.Kind.String()),
		Headers: []kgo.RecordHeader{{Key: routing.HeaderControl, Value: about.Append(nil)}},
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
