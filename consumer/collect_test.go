package consumer_test

import (
	"context"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tenantlane/tenantlane/consumer"
)

// Tenants are labels of as many series as were asked for, and of none without.
func TestMetricsNameTenantsOnlyWhereAsked(t *testing.T) {
	t.Parallel()
	for _, most := range []int{0, 2} {
		c := newCluster(t, 1)
		c.produce(sequence(0, 3, "whale", "whale2")...)
		c.produce(sequence(0, 1, "small", "\xff")...)
		registry := prometheus.NewPedanticRegistry()
		cfg := c.config()
		cfg.Registerer, cfg.TenantMetrics, cfg.Concurrency = registry, most, 1
		release := make(chan struct{})
		w := c.start(cfg, func(ctx context.Context, _ *consumer.Record) error {
			select {
			case <-release:
			case <-ctx.Done():
			}
			return nil
		})
		c.eventually(t, "all to be read", func() bool { return w.Depth([]byte("\xff")) == 1 })
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		tenants, lag := 0, 0.0
		for _, f := range families {
			switch f.GetName() {
			case "tenantlane_consumer_tenant_depth":
				tenants = len(f.GetMetric())
			case "tenantlane_consumer_runnable_lag":
				lag = f.GetMetric()[0].GetGauge().GetValue()
			}
		}
		if tenants != most || lag != 8 {
			t.Errorf("%d tenants are labels, want %d; runnable lag %v, want 8", tenants, most, lag)
		}
		close(release)
		if err := w.stop(); err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

// gauge is the value of a metric with one series, or with one label of a value.
func gauge(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "tenantlane_consumer_"+name && len(f.GetMetric()) == 1 {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("no metric %q with one series", name)
	return 0
}

// A whale whose first record hangs, with a resource, is as far behind as what
// was read beyond what it has in memory.
func TestMetricsShowHowFarAWhaleIsBehindAndWhoHasAResource(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	c.produce(sequence(0, 1000, "whale")...)
	c.produce(sequence(0, 10, "a", "b")...)
	registry := prometheus.NewPedanticRegistry()
	l := newLedger()
	cfg := l.watch(c.config())
	cfg.Registerer, cfg.MaxRecords, cfg.LaneRecords = registry, 200, 16
	cfg.Resources = map[string]consumer.Resource{"db": {Concurrency: 2}}
	release := make(chan struct{})
	w := c.start(cfg, func(ctx context.Context, r *consumer.Record) error {
		if string(r.Tenant) != "whale" {
			return nil
		}
		if _, err := r.Acquire(ctx, "db"); err != nil {
			return err
		}
		select {
		case <-release:
		case <-ctx.Done():
		}
		return ctx.Err()
	})
	c.eventually(t, "the partition to be read to its end", func() bool {
		all := w.Progress()
		return len(all) == 1 && all[0].Next == 1020
	})
	far, depth := gauge(t, registry, "overflow_distance"), float64(w.Depth([]byte("whale")))
	if far < 1020-depth || far > 1020 || depth < 1 || depth > 200 {
		t.Errorf("distance %v with %v of 1,020 in memory", far, depth)
	}
	if n := gauge(t, registry, "resource_in_use"); n != 1 {
		t.Errorf("%v have the resource", n)
	}
	close(release)
	l.waitCommitted(t, 0, 1020)
	if far, n := gauge(t, registry, "overflow_distance"), gauge(t, registry, "resource_in_use"); far != 0 || n != 0 {
		t.Errorf("at the end: distance %v, %v have the resource", far, n)
	}
}
