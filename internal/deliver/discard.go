package deliver

import (
	"context"
	"errors"
	"slices"
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

// errGivenUp is the error of a record that GiveUp gives up.
var errGivenUp = errors.New("given up, as asked for this tenant")

// GiveUp is a target that gives every record of these tenants up, so that their
// lanes are parked or their records dead-lettered, and passes the others on.
func GiveUp(tenants []string, next consumer.Handler) consumer.Handler {
	return func(ctx context.Context, r *consumer.Record) error {
		if slices.Contains(tenants, string(r.Tenant)) {
			return consumer.Permanent(errGivenUp)
		}
		return next(ctx, r)
	}
}
