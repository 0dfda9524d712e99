package notify

import "github.com/prometheus/client_golang/prometheus"

// metrics counts deliveries by target. A nil registerer makes them unseen.
type metrics struct {
	sent    *prometheus.CounterVec
	errors  *prometheus.CounterVec
	failure *prometheus.GaugeVec
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
	if reg != nil {
		reg.MustRegister(m.sent, m.errors, m.failure)
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
