package middleware

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/plugin/kotel"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/consumer"
)

// Middleware wraps a handler.
type Middleware = func(consumer.Handler) consumer.Handler

// Chain wraps h in all of them; the first is the outermost.
func Chain(h consumer.Handler, with ...Middleware) consumer.Handler {
	for i := len(with) - 1; i >= 0; i-- {
		h = with[i](h)
	}
	return h
}

// Logging logs each failed handling as a warning and each other one at debug
// level, with how long it took.
func Logging(log *zap.Logger) Middleware {
	return func(next consumer.Handler) consumer.Handler {
		return func(ctx context.Context, r *consumer.Record) error {
			begun := time.Now()
			err := next(ctx, r)
			level := zap.DebugLevel
			if err != nil {
				level = zap.WarnLevel
			}
			if entry := log.Check(level, "record handled"); entry != nil {
				entry.Write(zap.ByteString("tenant", r.Tenant), zap.String("topic", r.Topic), zap.Int32("partition", r.Partition),
					zap.Int64("offset", r.Offset), zap.Int("attempt", r.Attempt), zap.Duration("took", time.Since(begun)), zap.Error(err))
			}
			return err
		}
	}
}

// Metrics counts handlings and their time by topic and result, "done" or
// "failed", in tenantlane_handler_seconds. Tenants are no label: there may be a
// million.
func Metrics(reg prometheus.Registerer) (Middleware, error) {
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "tenantlane_handler_seconds", Help: "Time of one handling.",
		Buckets: prometheus.ExponentialBuckets(0.0001, 4, 10),
	}, []string{"topic", "result"})
	if err := reg.Register(seconds); err != nil {
		return nil, err
	}
	return func(next consumer.Handler) consumer.Handler {
		return func(ctx context.Context, r *consumer.Record) error {
			begun := time.Now()
			err := next(ctx, r)
			result := "done"
			if err != nil {
				result = "failed"
			}
			seconds.WithLabelValues(r.Topic, result).Observe(time.Since(begun).Seconds())
			return err
		}
	}, nil
}

// Timeout ends a handling's context after d, for a part of a handler that needs
// a shorter deadline than the runtime's.
func Timeout(d time.Duration) Middleware {
	return func(next consumer.Handler) consumer.Handler {
		return func(ctx context.Context, r *consumer.Record) error {
			ctx, cancel := context.WithTimeout(ctx, d)
			defer cancel()
			return next(ctx, r)
		}
	}
}

// Tracing gives each handling a span of its own, the child of the one that the
// producer sent along: the client's, if it has kotel's hooks, and otherwise, as
// for records that were read again, what the global propagator finds in the
// headers. The span carries the tenant and the attempt.
func Tracing(tracer *kotel.Tracer) Middleware {
	return func(next consumer.Handler) consumer.Handler {
		return func(ctx context.Context, r *consumer.Record) error {
			withParent(r) //nolint:contextcheck // the record's context, not the handling's
			_, span := tracer.WithProcessSpan(r.Record)
			defer span.End()
			span.SetAttributes(attribute.String("tenant", string(r.Tenant)), attribute.Int("attempt", r.Attempt))
			err := next(trace.ContextWithSpan(ctx, span), r)
			if err != nil {
				span.RecordError(err)
				span.SetStatus(codes.Error, err.Error())
			}
			return err
		}
	}
}

// withParent gives a record that no hook has seen the context of its producer.
func withParent(r *consumer.Record) {
	ctx := r.Context
	if ctx == nil {
		ctx = context.Background()
	}
	if !trace.SpanContextFromContext(ctx).IsValid() {
		r.Context = otel.GetTextMapPropagator().Extract(ctx, kotel.NewRecordCarrier(r.Record))
	}
}
