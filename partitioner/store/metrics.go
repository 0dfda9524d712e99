package store

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// fileMetrics are the metrics of one File. The gauges are read from the File
// when they are scraped.
type fileMetrics struct {
	registerer prometheus.Registerer
	collectors []prometheus.Collector
	loads      *prometheus.CounterVec
}

func newFileMetrics(f *File, r prometheus.Registerer) (*fileMetrics, error) {
	m := &fileMetrics{
		registerer: r,
		loads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tenantlane_table_loads_total",
			Help: "Changes of the routing table's file, by result: loaded, or refused and the last good table kept.",
		}, []string{"result"}),
	}
	m.loads.WithLabelValues("loaded").Add(0)
	m.loads.WithLabelValues("refused").Add(0)
	m.collectors = []prometheus.Collector{
		m.loads,
		gauge("tenantlane_table_revision", "Revision of the current routing table.",
			func() float64 { return float64(f.Table().Revision()) }),
		gauge("tenantlane_table_age_seconds", "Time since the routing table was last seen to be the current one.",
			func() float64 { return f.Age().Seconds() }),
		gauge("tenantlane_table_bad", "1 while the file holds something else than the current table, which stays in use.",
			func() float64 { return flag(f.Err() != nil) }),
	}
	return m, m.register()
}

func (m *fileMetrics) register() error {
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

func (m *fileMetrics) unregister() {
	if m.registerer == nil {
		return
	}
	for _, c := range m.collectors {
		m.registerer.Unregister(c)
	}
}

func (m *fileMetrics) loaded()  { m.loads.WithLabelValues("loaded").Inc() }
func (m *fileMetrics) refused() { m.loads.WithLabelValues("refused").Inc() }

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
	var taken prometheus.AlreadyRegisteredError
	if errors.As(err, &taken) {
		return errors.Join(err, errors.New("for several on one registry use prometheus.WrapRegistererWith"))
	}
	return err
}
