package lagwatch

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the watcher's own, and a collector over its last evaluation: a
// partition that was not seen, or a topic that is gone, has no series.
type metrics struct {
	last    func() *Evaluation
	samples prometheus.Histogram
	errors  prometheus.Counter
	state   *prometheus.CounterVec

	lag, delay, ratio, unknown, members, skew, firing, blind, at *prometheus.Desc
}

func newMetrics(reg prometheus.Registerer, last func() *Evaluation) (*metrics, error) {
	const ns = "tenantlane_lagwatch_"
	part := []string{"group", "topic", "pool", "partition"}
	pool := []string{"group", "topic", "pool"}
	desc := func(name, help string, labels []string) *prometheus.Desc {
		return prometheus.NewDesc(ns+name, help, labels, nil)
	}
	m := &metrics{
		last: last,
		samples: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: ns + "sample_seconds", Help: "Time that a round of questions took.",
			Buckets: prometheus.ExponentialBuckets(0.005, 2, 13),
		}),
		errors: prometheus.NewCounter(prometheus.CounterOpts{Name: ns + "sample_errors_total", Help: "Questions that were not answered."}),
		state: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: ns + "state_saves_total", Help: "Writes of the state file, by result.",
		}, []string{"result"}),
		lag:     desc("lag_records", "Records between what is done and the end, of partitions that were seen.", part),
		delay:   desc("delay_seconds", "Age of the oldest record that waits; 0 when none does.", part),
		ratio:   desc("ratio", "Lag over the baseline of its peers.", part),
		unknown: desc("unknown_partitions", "Partitions that the last round did not see.", pool),
		members: desc("members", "Members of the group.", []string{"group"}),
		skew:    desc("skew", "Largest lag over the lower median.", pool),
		firing:  desc("alert_firing", "1 for each open alert.", []string{"alert", "group", "topic", "pool", "severity"}),
		blind:   desc("blind", "1 when the last round did not see everything.", nil),
		at:      desc("evaluation_timestamp_seconds", "When the last round began.", nil),
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.samples, m.errors, m.state, m} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) sampled(d time.Duration, errors int) {
	m.samples.Observe(d.Seconds())
	m.errors.Add(float64(errors))
}

func (m *metrics) saved(err error) {
	result := "ok"
	if err != nil {
		result = "error"
	}
	m.state.WithLabelValues(result).Inc()
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.lag, m.delay, m.ratio, m.unknown, m.members, m.skew, m.firing, m.blind, m.at} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	e := m.last()
	if e == nil {
		return
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(m.at, float64(e.At.UnixMilli())/1000)
	gauge(m.blind, truth(e.Blind))
	for i := range e.alerts {
		a := &e.alerts[i]
		gauge(m.firing, 1, a.Name, a.Group, a.Topic, a.Pool, a.Severity)
	}
	group := ""
	for i := range e.Groups {
		g := &e.Groups[i]
		if i == 0 || g.Group != group {
			gauge(m.members, float64(g.Members), g.Group)
		}
		group = g.Group
		m.collectPool(g, gauge)
	}
}

func (m *metrics) collectPool(g *PoolEvaluation, gauge func(*prometheus.Desc, float64, ...string)) {
	unknown := 0
	for j := range g.Partitions {
		p := &g.Partitions[j]
		if !p.Known {
			unknown++
		}
		if !p.Known || !p.Committed {
			continue
		}
		id := itoa(p.Partition)
		gauge(m.lag, float64(p.Lag), g.Group, g.Topic, g.Pool, id)
		gauge(m.delay, p.Delay.Seconds(), g.Group, g.Topic, g.Pool, id)
		gauge(m.ratio, p.Ratio, g.Group, g.Topic, g.Pool, id)
	}
	gauge(m.unknown, float64(unknown), g.Group, g.Topic, g.Pool)
	gauge(m.skew, g.Skew, g.Group, g.Topic, g.Pool)
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
