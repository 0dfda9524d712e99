package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/plugin/kotel"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/tenantlane/tenantlane/consumer"
	"github.com/tenantlane/tenantlane/consumer/middleware"
	"github.com/tenantlane/tenantlane/partitioner/routing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errTest = errors.New("no")

func aRecord(session byte, seq uint64) *consumer.Record {
	r := &consumer.Record{Record: &kgo.Record{Topic: "orders", Offset: int64(seq)}, Tenant: []byte("acme"), Attempt: 1}
	if session != 0 {
		h := routing.RouteHeader{Session: [16]byte{session}, Seq: seq}
		r.Headers = []kgo.RecordHeader{{Key: routing.HeaderRoute, Value: h.Append(nil)}}
	}
	return r
}

func failing(context.Context, *consumer.Record) error { return errTest }

func TestChainRunsTheFirstOutermostAndHandsErrorsOn(t *testing.T) {
	var order []string
	note := func(name string) middleware.Middleware {
		return func(next consumer.Handler) consumer.Handler {
			return func(ctx context.Context, r *consumer.Record) error {
				order = append(order, name)
				return next(ctx, r)
			}
		}
	}
	h := middleware.Chain(failing, note("a"), note("b"))
	if err := h(t.Context(), aRecord(0, 1)); !errors.Is(err, errTest) || fmt.Sprint(order) != "[a b]" {
		t.Errorf("%v, order %v", err, order)
	}
}

func TestLoggingWarnsOfFailuresWithTheTenant(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	with := middleware.Logging(zap.New(core))
	if err := with(failing)(t.Context(), aRecord(0, 7)); err != errTest {
		t.Errorf("got %v", err)
	}
	done := func(context.Context, *consumer.Record) error { return nil }
	if err := with(done)(t.Context(), aRecord(0, 8)); err != nil {
		t.Errorf("got %v", err)
	}
	all := logs.All()
	if len(all) != 2 || all[0].Level != zap.WarnLevel || all[1].Level != zap.DebugLevel || all[0].ContextMap()["tenant"] != "acme" {
		t.Errorf("logged %+v", all)
	}
}

func TestMetricsCountByResult(t *testing.T) {
	registry := prometheus.NewRegistry()
	with, err := middleware.Metrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		_ = with(failing)(t.Context(), aRecord(0, 1))
	}
	if n := testutil.CollectAndCount(registry, "tenantlane_handler_seconds"); n != 1 {
		t.Errorf("%d series, want one", n)
	}
	if _, err := middleware.Metrics(registry); err == nil {
		t.Error("registered twice without an error")
	}
}

func TestTimeoutEndsTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := middleware.Timeout(time.Second)(func(ctx context.Context, _ *consumer.Record) error {
			<-ctx.Done()
			return ctx.Err()
		})
		begun := time.Now()
		if err := h(t.Context(), aRecord(0, 1)); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != time.Second {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
	})
}

func TestTracingKeepsTheHandlersDeadline(t *testing.T) {
	tracer := kotel.NewTracer(kotel.TracerProvider(noop.NewTracerProvider()))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h := middleware.Tracing(tracer)(func(ctx context.Context, _ *consumer.Record) error {
		if trace.SpanFromContext(ctx) == nil {
			t.Error("no span")
		}
		return ctx.Err()
	})
	if err := h(ctx, aRecord(0, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the handler's own context to have ended", err)
	}
}

// A record that was read again comes by no hook: its producer's span is in its
// headers.
func TestTracingFindsTheProducersSpan(t *testing.T) {
	before := otel.GetTextMapPropagator()
	otel.SetTextMapPropagator(propagation.TraceContext{})
	defer otel.SetTextMapPropagator(before)
	r := aRecord(0, 1)
	r.Headers = append(r.Headers, kgo.RecordHeader{
		Key: "traceparent", Value: []byte("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
	})
	h := middleware.Tracing(kotel.NewTracer(kotel.TracerProvider(noop.NewTracerProvider())))(
		func(ctx context.Context, _ *consumer.Record) error {
			if got := trace.SpanContextFromContext(ctx).TraceID().String(); got != "0af7651916cd43dd8448eb211c80319c" {
				t.Errorf("the handling is of trace %s", got)
			}
			return nil
		})
	if err := h(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

func TestDedupStepsOverRepeatsAndSaysWhatItForgets(t *testing.T) {
	w := middleware.NewWindow(3)
	var handled, repeats []int64
	h := middleware.Dedup(w, func(r *consumer.Record) { repeats = append(repeats, r.Offset) })(
		func(_ context.Context, r *consumer.Record) error {
			handled = append(handled, r.Offset)
			return nil
		})
	handle := func(session byte, seqs ...uint64) {
		for _, seq := range seqs {
			if err := h(t.Context(), aRecord(session, seq)); err != nil {
				t.Fatal(err)
			}
		}
	}
	handle(1, 1, 2, 1, 2)
	handle(2, 1) // another session's
	handle(0, 9, 9)
	if fmt.Sprint(handled) != "[1 2 1 9 9]" || fmt.Sprint(repeats) != "[1 2]" {
		t.Errorf("handled %v, repeats %v", handled, repeats)
	}
	handle(1, 3, 1) // 3 makes the window forget 1, which then counts as new
	if w.Len() != 3 || w.Forgotten() != 2 || handled[len(handled)-1] != 1 {
		t.Errorf("handled %v, remembers %d, forgot %d", handled, w.Len(), w.Forgotten())
	}
}

func TestDedupDoesNotRememberFailures(t *testing.T) {
	w := middleware.NewWindow(3)
	h := middleware.Dedup(w, nil)(failing)
	for range 2 {
		if err := h(t.Context(), aRecord(1, 1)); !errors.Is(err, errTest) {
			t.Errorf("got %v", err)
		}
	}
	if w.Len() != 0 {
		t.Errorf("remembers %d failed records", w.Len())
	}
}

func ExampleChain() {
	handle := func(_ context.Context, r *consumer.Record) error {
		fmt.Printf("handled %d\n", r.Offset)
		return nil
	}
	h := middleware.Chain(handle, middleware.Timeout(time.Second), middleware.Dedup(middleware.NewWindow(1000), nil))
	for _, seq := range []uint64{1, 2, 1} { // the third is a repeat
		if err := h(context.Background(), aRecord(1, seq)); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// handled 1
	// handled 2
}
