package deliver

import (
	"context"
	"time"

	"github.com/tenantlane/tenantlane/consumer"
)

// Discard is a target that does nothing but take its time; 0 takes none.
func Discard(sleep time.Duration) consumer.Handler {
	if sleep <= 0 {
		return func(context.Context, *consumer.Record) error { return nil }
	}
	return func(ctx context.Context, _ *consumer.Record) error {
		timer := time.NewTimer(sleep)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			return nil
		}
	}
}
