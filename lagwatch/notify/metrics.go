package notify

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics counts deliveries by target. A nil registerer makes them unseen.
type metrics struct {
	sent    *prometheus.CounterVec
	errors  *prometheus.CounterVec
	failure *prometheus.GaugeVec
	clock   *prometheus.GaugeVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		sent: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tenantlane_lagwatch_notifications_total", Help: "Alerts delivered, by target; ends count too.",
		}, []string{"target"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tenantlane_lagwatch_notification_failures_total", Help: "Deliveries that failed, by target.",
		}, []string{"target"}),
		failure: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "tenantlane_lagwatch_notify_failing", Help: "1 while a target does not take alerts.",
		}, []string{"target"}),
	}
	m.clock = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "tenantlane_lagwatch_notify_clock_skew_seconds", Help: "How far a target's clock is ahead.",
	}, []string{"target"})
	if reg != nil {
		reg.MustRegister(m.sent, m.errors, m.failure, m.clock)
	}
	return m
}

func (m *metrics) delivered(target string, n int) { m.sent.WithLabelValues(target).Add(float64(n)) }

func (m *metrics) failed(target string) { m.errors.WithLabelValues(target).Inc() }

func (m *metrics) failing(target string, is bool) {
	v := 0.0
	if is {
		v = 1
	}
	m.failure.WithLabelValues(target).Set(v)
}

func (m *metrics) skew(target string, d time.Duration) {
	m.clock.WithLabelValues(target).Set(d.Seconds())
}
