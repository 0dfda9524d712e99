package partitioner

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

// reason is why a record was not produced, as the metrics name it.
type reason uint8

const (
	reasonOther reason = iota // the client's or the broker's error
	reasonNoTenant
	reasonNoKey
	reasonOutOfRange
	reasonTenantFull
	reasonPartitionFull
	reasonMoving
	reasonReserved
	reasonStale
	reasonNoTransaction
	reasonClosed
	reasonContext
	reasons
)

var reasonNames = [reasons]string{
	"produce_failed", "no_tenant", "no_key", "out_of_range", "tenant_backpressure",
	"partition_unavailable", "tenant_moving", "reserved_header", "stale_table", "no_transaction", "closed", "context",
}

func reasonOf(err error) reason {
	for _, known := range []struct {
		err error
		is  reason
	}{
		{ErrNoTenant, reasonNoTenant},
		{ErrNoKey, reasonNoKey},
		{ErrOutOfRange, reasonOutOfRange},
		{ErrTenantBackpressure, reasonTenantFull},
		{ErrPartitionUnavailable, reasonPartitionFull},
		{ErrTenantMoving, reasonMoving},
		{ErrReservedHeader, reasonReserved},
		{store.ErrStaleTable, reasonStale},
		{ErrNoTransaction, reasonNoTransaction},
		{ErrClosed, reasonClosed},
		{context.Canceled, reasonContext},
		{context.DeadlineExceeded, reasonContext},
	} {
		if errors.Is(err, known.err) {
			return known.is
		}
	}
	return reasonOther
}

// producerMetrics is the collector of one Producer. What a record changes is
// counted in the state that it passes anyway and read when it is scraped.
type producerMetrics struct {
	p          *Producer
	registerer prometheus.Registerer
	gateTime   *prometheus.HistogramVec
	drainTime  *prometheus.HistogramVec
	moves      *prometheus.CounterVec
	lates      *prometheus.CounterVec
	resends    *prometheus.CounterVec

	records, bytes, refused, inFlight, inFlightBytes *prometheus.Desc
	queued, openMoves, viewAge, revision             *prometheus.Desc
}

func newProducerMetrics(p *Producer, r prometheus.Registerer) (*producerMetrics, error) {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("tenantlane_producer_"+name, help, labels, nil)
	}
	m := &producerMetrics{
		p: p, registerer: r,
		gateTime: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "tenantlane_producer_gate_seconds",
			Help:    "Time that records waited while their tenant was held back, or for room. Records that did not wait are not counted.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 10),
		}, []string{"topic"}),
		drainTime: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "tenantlane_producer_move_drain_seconds",
			Help:    "Time from when a move was seen until nothing of its unit was in flight and that was acknowledged.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 10),
		}, []string{"topic"}),
		moves: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tenantlane_producer_moves_total",
			Help: "Moves seen open that have ended, by how.",
		}, []string{"topic", "state"}),
		lates: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tenantlane_producer_late_acknowledgements_total",
			Help: "Records that a broker acknowledged after the lease under which they were sent, kept until a newer table decides.",
		}, []string{"topic"}),
		resends: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tenantlane_producer_resends_total",
			Help: "Late records that lay behind the fence of a move and were sent again to the new home.",
		}, []string{"topic"}),
		records:       desc("records_total", "Records acknowledged.", "topic", "partition"),
		bytes:         desc("bytes_total", "Bytes of keys, values and headers acknowledged.", "topic", "partition"),
		refused:       desc("refused_total", "Records not produced, by reason.", "topic", "partition", "reason"),
		inFlight:      desc("in_flight_records", "Records handed to the client and not answered.", "topic", "partition"),
		inFlightBytes: desc("in_flight_bytes", "Bytes handed to the client and not answered.", "topic", "partition"),
		queued:        desc("queued_records", "Records of tenants that are held back.", "topic"),
		openMoves:     desc("open_moves", "Moves that are open by the routing table.", "topic"),
		viewAge:       desc("view_age_seconds", "Age of the routing table's view, if its source knows it."),
		revision:      desc("table_revision", "Revision of the routing table in use."),
	}
	if r == nil {
		return m, nil
	}
	err := r.Register(m)
	if taken := (prometheus.AlreadyRegisteredError{}); errors.As(err, &taken) {
		err = errors.Join(err, errors.New("for several Producers on one registry use prometheus.WrapRegistererWith"))
	}
	return m, err
}

func (m *producerMetrics) unregister() {
	if m.registerer != nil {
		m.registerer.Unregister(m)
	}
}

func (m *producerMetrics) waited(topic string, d time.Duration) {
	m.gateTime.WithLabelValues(topic).Observe(d.Seconds())
}

func (m *producerMetrics) drained(topic string, d time.Duration) {
	m.drainTime.WithLabelValues(topic).Observe(d.Seconds())
}

func (m *producerMetrics) ended(topic string, state routing.MoveState) {
	m.moves.WithLabelValues(topic, state.String()).Inc()
}

func (m *producerMetrics) late(topic string) { m.lates.WithLabelValues(topic).Inc() }

func (m *producerMetrics) resent(topic string) { m.resends.WithLabelValues(topic).Inc() }

// vectors are the metrics that are counted as it happens, all rare.
func (m *producerMetrics) vectors() []prometheus.Collector {
	return []prometheus.Collector{m.gateTime, m.drainTime, m.moves, m.lates, m.resends}
}

// Describe implements prometheus.Collector.
func (m *producerMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, v := range m.vectors() {
		v.Describe(ch)
	}
	for _, d := range []*prometheus.Desc{
		m.records, m.bytes, m.refused, m.inFlight, m.inFlightBytes, m.queued, m.openMoves, m.viewAge, m.revision,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *producerMetrics) Collect(ch chan<- prometheus.Metric) {
	for _, v := range m.vectors() {
		v.Collect(ch)
	}
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	gauge(m.revision, float64(m.p.Revision()))
	if aged, ok := m.p.src.(store.Aged); ok {
		gauge(m.viewAge, aged.Age().Seconds())
	}
	for name, topic := range m.p.topics.Range {
		gauge(m.queued, float64(topic.(*topicState).gates.queued()), name.(string))
		gauge(m.openMoves, float64(m.p.moves.openByTopic(name.(string))), name.(string))
	}
	for _, d := range m.p.dests.Range {
		for _, part := range *d.(*dest).parts.Load() {
			m.collectPartition(ch, part)
		}
	}
}

// collectPartition leaves out partitions that nothing was sent to.
func (m *producerMetrics) collectPartition(ch chan<- prometheus.Metric, part *partition) {
	total, used, refused := part.numbers()
	if total.records == 0 && used.records == 0 && refused == [reasons]uint64{} {
		return
	}
	labels := []string{part.dest.name, strconv.Itoa(int(part.index))}
	add := func(d *prometheus.Desc, kind prometheus.ValueType, value float64, more ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, value, append(labels, more...)...)
	}
	add(m.records, prometheus.CounterValue, float64(total.records))
	add(m.bytes, prometheus.CounterValue, float64(total.bytes))
	add(m.inFlight, prometheus.GaugeValue, float64(used.records))
	add(m.inFlightBytes, prometheus.GaugeValue, float64(used.bytes))
	for why, n := range refused {
		if n > 0 {
			add(m.refused, prometheus.CounterValue, float64(n), reasonNames[why])
		}
	}
}
