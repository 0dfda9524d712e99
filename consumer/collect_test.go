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
