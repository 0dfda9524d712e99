package lagwatch_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tenantlane/tenantlane/lagwatch"
	"github.com/tenantlane/tenantlane/lagwatch/lag"
	"github.com/tenantlane/tenantlane/lagwatch/notify"
)

// fast is a rule for a test that lives through it in real time.
func fast() *lag.Rule {
	return rule(func(r *lag.Rule) {
		r.Interval, r.For, r.KeepFiring = 50*time.Millisecond, 200*time.Millisecond, 100*time.Millisecond
		r.MinDelay, r.DrainOK = time.Second, 0
	})
}

func TestHotPartitionPagesOnceAndResolvesOnce(t *testing.T) {
	t.Parallel()
	c := hotCluster(t)
	target, got := receiver(t)
	reg := prometheus.NewPedanticRegistry()
	w := c.watcher(func(cfg *lagwatch.Config) {
		cfg.Rule, cfg.Targets, cfg.Registerer = fast(), []notify.Target{target}, reg
		cfg.Overrides = []lagwatch.Override{{Group: "bill*", Owner: "payments"}}
	})
	stop := running(t, w)
	a := next(t, got, lag.AlertHot)
	if a.Status != "firing" || a.Group != "billing" || a.Topic != "orders" || a.Pool != lag.SharedPool ||
		!slices.Equal(a.Partitions, []int32{2}) || a.Tenant != "importer" || a.Share < 0.9 || a.Owner != "payments" {
		t.Fatal(asJSON(t, a))
	}
	if !strings.Contains(a.Summary, "importer") || len(a.Commands) == 0 || !strings.HasSuffix(a.Runbook, "partition_hot.md") {
		t.Fatal(asJSON(t, a))
	}
	if text := scrape(t, w.Handler()); !strings.Contains(text, `tenantlane_lagwatch_lag_records{group="billing",partition="2",pool="shared",topic="orders"} 5000`) ||
		!strings.Contains(text, `tenantlane_lagwatch_alert_firing{alert="partition_hot"`) {
		t.Fatal(text)
	}
	c.commit("billing", 100, 100, 5100, 100)
	b := next(t, got, lag.AlertHot)
	for b.Status == "firing" { // it is told again only when it got louder
		if b.Severity == a.Severity {
			t.Fatalf("paged twice: %s", asJSON(t, b))
		}
		b = next(t, got, lag.AlertHot)
	}
	if b.DedupKey != a.DedupKey {
		t.Fatal(asJSON(t, b))
	}
	stop()
	select {
	case more := <-got:
		if more.Name == lag.AlertHot {
			t.Fatal(asJSON(t, more))
		}
	default:
	}
}

func scrape(t *testing.T, h http.Handler) string {
	t.Helper()
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	body, err := io.ReadAll(rec.Body)
	if err != nil || rec.Code != http.StatusOK {
		t.Fatalf("status %d, %v", rec.Code, err)
	}
	return string(body)
}

// A broker that dies under a live watcher: nothing resolves, and the watcher
// says that it is blind.
func TestKilledBrokerResolvesNothing(t *testing.T) {
	t.Parallel()
	c := hotCluster(t)
	target, got := receiver(t)
	reg := prometheus.NewPedanticRegistry()
	w := c.watcher(func(cfg *lagwatch.Config) {
		cfg.Rule, cfg.Targets, cfg.SampleTimeout, cfg.Registerer = fast(), []notify.Target{target}, 600*time.Millisecond, reg
	})
	stop := running(t, w)
	if a := next(t, got, lag.AlertHot); a.Status != "firing" {
		t.Fatal(asJSON(t, a))
	}
	c.broker.Close()
	blind := next(t, got, lag.AlertBlind)
	if blind.Status != "firing" || blind.Group != "billing" {
		t.Fatal(asJSON(t, blind))
	}
	e := w.Last()
	requireNoHealth(t, e)
	if f := pool(t, e, "billing", lag.SharedPool).Firing; !slices.ContainsFunc(f, func(f lagwatch.Firing) bool { return f.Alert == lag.AlertHot }) {
		t.Fatalf("the open page is gone: %s", asJSON(t, f))
	}
	if text := scrape(t, w.Handler()); strings.Contains(text, "tenantlane_lagwatch_lag_records{") || !strings.Contains(text, "tenantlane_lagwatch_blind 1") {
		t.Fatalf("stale series of what was not seen:\n%s", text)
	}
	stop()
	for len(got) > 0 {
		if a := <-got; a.Name == lag.AlertHot && a.Status == "resolved" {
			t.Fatal("resolved by blindness")
		}
	}
}

// One of two brokers: its partitions are unknown, the others are not.
func TestOneOfTwoBrokersKilled(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	for p := range int32(4) {
		c.produce(p, "acme", 10, 0)
		if err := c.broker.Cluster().MoveTopicPartition("orders", p, p%2); err != nil {
			t.Fatal(err)
		}
	}
	group := "a"
	for c.broker.Cluster().CoordinatorFor(group) != 0 {
		group += "a"
	}
	c.commit(group, 10, 10, 10, 10)
	seen := make(chan *lagwatch.Evaluation, 1000)
	w := c.watcher(func(cfg *lagwatch.Config) {
		cfg.Rule, cfg.SampleTimeout = fast(), 900*time.Millisecond
		cfg.OnEvaluation = func(e *lagwatch.Evaluation) { seen <- e }
	})
	stop := running(t, w)
	defer stop()
	if e := <-seen; e.Blind {
		t.Fatal(asJSON(t, e))
	}
	dead := errors.New("no answer from a dead broker")
	c.broker.Cluster().Control(func(kmsg.Request) (kmsg.Response, error, bool) {
		c.broker.Cluster().KeepControl()
		return nil, dead, c.broker.Cluster().CurrentNode() == 1
	})
	deadline := time.After(20 * time.Second)
	for {
		select {
		case <-deadline:
			t.Fatal("never blind")
		case e := <-seen:
			if p := pool(t, e, group, lag.SharedPool); !e.Blind || len(p.Partitions) != 4 {
				continue // asked before
			} else if e.Unknown == 2 {
				for _, v := range p.Partitions {
					if v.Known == (v.Partition%2 == 1) {
						t.Fatalf("partition %d: %s", v.Partition, asJSON(t, v))
					}
				}
				return
			}
		}
	}
}

func TestHealthEndpoints(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	seen := make(chan struct{}, 1000)
	w := c.watcher(func(cfg *lagwatch.Config) {
		cfg.Rule, cfg.Listen = fast(), "127.0.0.1:0"
		cfg.OnEvaluation = func(*lagwatch.Evaluation) { seen <- struct{}{} }
	})
	status := func(path string) int {
		rec := httptest.NewRecorder()
		w.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, path, nil))
		return rec.Code
	}
	if status("/-/ready") != http.StatusServiceUnavailable || status("/-/healthy") != http.StatusOK {
		t.Fatal("before the first evaluation")
	}
	stop := running(t, w)
	<-seen
	if status("/-/ready") != http.StatusOK || status("/-/healthy") != http.StatusOK {
		t.Fatal("after it")
	}
	stop()
}

func TestListenThatCannotBeBoundIsAnError(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	for _, address := range []string{c.broker.Addrs()[0], "nonsense"} {
		w := c.watcher(func(cfg *lagwatch.Config) { cfg.Listen = address })
		if err := w.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "Listen") {
			t.Errorf("%s: %v", address, err)
		}
	}
}
