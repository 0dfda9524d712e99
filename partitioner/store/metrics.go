package store

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// viewMetrics are the metrics of one File or Topic. The gauges are read from it
// when they are scraped.
type viewMetrics struct {
	registerer prometheus.Registerer
	collectors []prometheus.Collector
	loads      *prometheus.CounterVec
}

// followed is what the metrics are read from.
type followed interface {
	Source
	Aged
	Err() error
}

func newViewMetrics(f followed, r prometheus.Registerer) (*viewMetrics, error) {
	m := &viewMetrics{
		registerer: r,
		loads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tenantlane_table_loads_total",
			Help: "Changes of the routing table, by result: loaded; refused and the last good table kept; or reloaded, the topic read again from its start.",
		}, []string{"result"}),
	}
	for _, result := range []string{"loaded", "refused", "reloaded"} {
		m.loads.WithLabelValues(result).Add(0)
	}
	m.collectors = []prometheus.Collector{
		m.loads,
		gauge("tenantlane_table_revision", "Revision of the current routing table.",
			func() float64 { return float64(f.Table().Revision()) }),
		gauge("tenantlane_table_age_seconds", "Time since the routing table was last seen to be the current one.",
			func() float64 { return f.Age().Seconds() }),
		gauge("tenantlane_table_bad", "1 while the file or topic holds something else than the current table, which stays in use.",
			func() float64 { return flag(f.Err() != nil) }),
	}
	return m, m.register()
}

func (m *viewMetrics) register() error {
	if m.registerer == nil {
		return nil
	}
	for i, c := range m.collectors {
		if err := m.registerer.Register(c); err != nil {
			m.collectors = m.collectors[:i]
			m.unregister()
			return hint(err)
		}
	}
	return nil
}

func (m *viewMetrics) unregister() {
	if m.registerer == nil {
		return
	}
	for _, c := range m.collectors {
		m.registerer.Unregister(c)
	}
}

func (m *viewMetrics) loaded()   { m.loads.WithLabelValues("loaded").Inc() }
func (m *viewMetrics) refused()  { m.loads.WithLabelValues("refused").Inc() }
func (m *viewMetrics) reloaded() { m.loads.WithLabelValues("reloaded").Inc() }

func gauge(name, help string, value func() float64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// hint adds what to do about the likeliest cause.
func hint(err error) error {
	if _, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		return errors.Join(err, errors.New("for several on one registry use prometheus.WrapRegistererWith"))
	}
	return err
}
