package consumer

import (
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/tenantlane/tenantlane/partitioner"
)

// sampled lets through the first ten of each message in a second, and then
// every thousandth: a tenant whose every record fails must not drown the log.
func sampled(log *zap.Logger) *zap.Logger {
	return log.WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(core, time.Second, 10, 1000)
	}))
}

// tenantOf is a record's tenant, or nil.
func tenantOf(p *partition, r *kgo.Record) []byte {
	tenant, ok := partitioner.TenantOf(p.rule, r)
	if !ok {
		return nil
	}
	return tenant
}

func (e *engine) logSkip(p *partition, r *Record, err error) {
	e.metrics.skipped.WithLabelValues(p.topic).Inc()
	e.sampled.Warn("record skipped", zap.ByteString("tenant", r.Tenant), zap.String("topic", r.Topic),
		zap.Int32("partition", r.Partition), zap.Int64("offset", r.Offset), zap.Error(err))
}

func (e *engine) logRetry(f *failure, delay time.Duration) {
	e.remember(f, (*troubles).failedFor)
	e.metrics.retries.WithLabelValues(f.p.topic).Inc()
	if panicked, ok := errors.AsType[*PanicError](f.err); ok {
		e.metrics.panics.WithLabelValues(f.p.topic).Inc()
		e.sampled.Error("handler panicked", f.fields(zap.Error(f.err), zap.ByteString("stack", panicked.Stack))...)
		return
	}
	e.sampled.Warn("record is handled again", f.fields(zap.Int("attempts", f.attempts), zap.Duration("delay", delay), zap.Error(f.err))...)
}

func (e *engine) logForeign(f *failure) {
	e.metrics.foreign.WithLabelValues(f.p.topic).Inc()
	e.logPark(f)
}

func (e *engine) logPark(f *failure) {
	e.remember(f, (*troubles).parkedFor)
	e.log.Error("lane parked", f.fields(zap.Int("attempts", f.attempts), zap.Error(f.err))...)
}
