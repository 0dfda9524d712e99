package middleware

import (
	"context"

	"github.com/tenantlane/tenantlane/consumer"
)

// OwnReplays skips records that were replayed from the dead letters of another
// group, which this one has handled: a replay goes back into the topic, where
// every group reads it.
func OwnReplays(group string) Middleware {
	return func(next consumer.Handler) consumer.Handler {
		return func(ctx context.Context, r *consumer.Record) error {
			if of, replay := r.ReplayOf(); replay && of != group {
				return consumer.Skip("a replay for group " + of)
			}
			return next(ctx, r)
		}
	}
}
