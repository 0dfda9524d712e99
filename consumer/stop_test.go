package consumer_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tenantlane/tenantlane/consumer"
)

func TestShutdownDoesNotWaitForEverForAStuckHandler(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	c.produce(sequence(0, 1, "stuck", "a", "b")...)
	release := make(chan struct{})
	j := newJournal()
	cfg := c.config()
	cfg.DrainTimeout = 100 * time.Millisecond
	w := c.start(cfg, func(ctx context.Context, r *consumer.Record) error {
		if string(r.Tenant) == "stuck" {
			<-release
			return nil
		}
		return j.handle(ctx, r)
	})
	t.Cleanup(func() { close(release) }) // before goleak looks
	j.waitFor(t, 2)
	if err := w.stop(); !errors.Is(err, consumer.ErrStuckHandler) {
		t.Errorf("Run returned %v, want ErrStuckHandler", err)
	}
	if got := c.committed(0); got != 0 {
		t.Errorf("committed %d past a record that was not handled", got)
	}
}

func TestStopNowDoesNotDrain(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	c.produce(sequence(0, 1000, "a")...)
	began := make(chan struct{}, 1)
	w := c.start(c.config(), func(ctx context.Context, _ *consumer.Record) error {
		select {
		case began <- struct{}{}:
		default:
		}
		<-ctx.Done()
		return ctx.Err()
	})
	<-began
	w.StopNow()
	if err := w.wait(); err != nil {
		t.Errorf("Run: %v", err)
	}
}

func TestRunFailsByNameWithoutBrokersOrTopic(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	cfg := c.config()
	cfg.Topics = []string{"no-such-topic"}
	w := c.start(cfg, newJournal().handle)
	if err := w.wait(); !errors.Is(err, consumer.ErrTopicMissing) {
		t.Errorf("Run returned %v, want ErrTopicMissing", err)
	}
}

func TestCancelBeforeAnythingWasAssignedEndsRun(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	w := c.start(c.config(), newJournal().handle)
	if err := w.stop(); err != nil {
		t.Errorf("Run: %v", err)
	}
}
