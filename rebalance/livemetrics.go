package rebalance

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The outcomes of a move, as metrics and logs name them.
const (
	outcomeSwitched = "switched"
	outcomeAborted  = "aborted"
	outcomeRefused  = "refused"
	outcomeUnknown  = "unknown"
)

// The steps of a move, as metrics and logs name them.
const (
	stepCheck   = "check"
	stepPrepare = "prepare"
	stepDrain   = "drain"
	stepFence   = "fence"
	stepSwitch  = "switch"
)

// liveMetrics is what a LiveCoordinator counts.
type liveMetrics struct {
	registerer prometheus.Registerer
	registered []prometheus.Collector
	moves      *prometheus.CounterVec
	seconds    *prometheus.HistogramVec
	pause      prometheus.Histogram
}

func newLiveMetrics(table LiveTable, r prometheus.Registerer) (*liveMetrics, error) {
	buckets := []float64{.002, .005, .01, .02, .03, .05, .075, .12, .25, .5, 1, 2.5, 5, 10, 15, 30}
	m := &liveMetrics{
		registerer: r,
		moves: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tenantlane_moves_total", Help: "Moves by how they ended.",
		}, []string{"outcome"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "tenantlane_move_step_seconds", Help: "Duration of the steps of moves.", Buckets: buckets,
		}, []string{"step"}),
		pause: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "tenantlane_move_pause_seconds", Help: "Time for which a move held its unit's producers back, as its coordinator saw it.", Buckets: buckets,
		}),
	}
	open := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tenantlane_moves_open", Help: "Moves in the table that are neither switched nor aborted.",
	}, func() float64 { return float64(openMoves(table)) })
	for _, outcome := range []string{outcomeSwitched, outcomeAborted, outcomeRefused, outcomeUnknown} {
		m.moves.WithLabelValues(outcome)
	}
	if r == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.moves, m.seconds, m.pause, open} {
		if err := r.Register(c); err != nil {
			m.unregister()
			return nil, err
		}
		m.registered = append(m.registered, c)
	}
	return m, nil
}

func (m *liveMetrics) unregister() {
	for _, c := range m.registered {
		m.registerer.Unregister(c)
	}
	m.registered = nil
}

// openMoves counts those of all topics.
func openMoves(table LiveTable) (n int) {
	t := table.Table()
	for _, name := range t.TopicNames() {
		topic, _ := t.Topic(name)
		for _, m := range topic.Moves() {
			if m.Open() {
				n++
			}
		}
	}
	return n
}

// ended counts a move.
func (m *liveMetrics) ended(r *Report, err error) {
	outcome := outcomeAborted
	switch {
	case r.State == StateDone:
		outcome = outcomeSwitched
	case r.State == StateUnknown:
		outcome = outcomeUnknown
	case errors.Is(err, ErrRefused):
		outcome = outcomeRefused
	}
	m.moves.WithLabelValues(outcome).Inc()
	if r.Pause > 0 {
		m.pause.Observe(r.Pause.Seconds())
	}
}

// step notes how long a step took that began at a time.
func (m *liveMetrics) step(name string, began time.Time) {
	m.seconds.WithLabelValues(name).Observe(time.Since(began).Seconds())
}
