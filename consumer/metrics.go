package consumer

import (
	"sort"

	"github.com/prometheus/client_golang/prometheus"
)

const metricPrefix = "tenantlane_consumer_"

// metrics are the rare events, counted as they happen. What the hot path
// counts is kept under the engine's lock and read by its collector.
type metrics struct {
	rebalances  *prometheus.CounterVec // event
	commits     prometheus.Counter
	commitErrs  *prometheus.CounterVec // error
	fetchErrs   *prometheus.CounterVec // error
	retries     *prometheus.CounterVec // topic
	skipped     *prometheus.CounterVec // topic
	deadLetters *prometheus.CounterVec // topic
	deadErrs    *prometheus.CounterVec // topic
	late        *prometheus.CounterVec // topic
	lateLetters *prometheus.CounterVec // topic
	panics      *prometheus.CounterVec // topic
	timeouts    *prometheus.CounterVec // topic
	lost        *prometheus.CounterVec // topic, partition
	resets      *prometheus.CounterVec // topic, partition
	control     *prometheus.CounterVec // topic
	noTenant    *prometheus.CounterVec // topic
	notOwned    *prometheus.CounterVec // topic
	stops       *prometheus.CounterVec // topic, partition
	stalls      *prometheus.CounterVec // topic, partition
	reread      prometheus.Counter
	ignored     *prometheus.CounterVec // reason
	stale       *prometheus.CounterVec // topic, outcome
	foreign     *prometheus.CounterVec // topic
	fences      *prometheus.CounterVec // topic, state
	tableErrs   prometheus.Counter
}

func newMetrics() *metrics {
	return &metrics{
		rebalances:  counterVec("rebalances_total", "Group callbacks run.", "event"),
		commits:     prometheus.NewCounter(counterOpts("commits_total", "Acknowledged offset commits.")),
		commitErrs:  counterVec("commit_errors_total", "Partitions whose commit failed; it is tried again.", "error"),
		fetchErrs:   counterVec("fetch_errors_total", "Errors that polls returned.", "error"),
		retries:     counterVec("retries_total", "Handlings that failed and are repeated.", "topic"),
		skipped:     counterVec("skipped_records_total", "Records that ended without success by Skip or policy.", "topic"),
		deadLetters: counterVec("dead_letters_total", "Records written to the dead-letter topic.", "topic"),
		deadErrs:    counterVec("dead_letter_errors_total", "Failed writes of dead letters; they are tried again.", "topic"),
		late:        counterVec("too_far_lanes_total", "Times a lane was too far behind, so that its records went to the dead-letter topic.", "topic"),
		lateLetters: counterVec("too_far_records_total", "Records written to the dead-letter topic since their lane was too far behind; dead_letters_total has them too.", "topic"),
		panics:      counterVec("handler_panics_total", "Panics of handlers.", "topic"),
		timeouts:    counterVec("handler_timeouts_total", "Handlings that reached their deadline.", "topic"),
		lost:        counterVec("lost_records_total", "Offsets that retention deleted before they were handled.", "topic", "partition"),
		resets:      counterVec("resets_total", "Positions that went back because the log changed.", "topic", "partition"),
		control:     counterVec("control_records_total", "Move and transaction markers stepped over.", "topic"),
		noTenant:    counterVec("no_tenant_records_total", "Records without a tenant.", "topic"),
		notOwned:    counterVec("dropped_records_total", "Fetched records of partitions no longer owned.", "topic"),
		stalls:      counterVec("stalls_total", "Reports of a partition whose first unfinished record stayed the same.", "topic", "partition"),
		reread:      prometheus.NewCounter(counterOpts("reread_bytes_total", "Bytes of batches that were read again.")),
		ignored:     counterVec("ignored_metadata_total", "Commits whose metadata was ignored, so that more repeats.", "reason"),
		stale:       counterVec("stale_records_total", "Records behind a fence that had ended their tenant there: in quarantine, or handled where producers may lack the wrapper.", "topic", "outcome"),
		foreign:     counterVec("foreign_stamps_total", "Lanes parked for a record whose epoch the routing table has not reached.", "topic"),
		fences:      counterVec("fences_total", "Fences passed, confirmed by the routing table or void.", "topic", "state"),
		tableErrs:   prometheus.NewCounter(counterOpts("table_sync_errors_total", "Failed readings of the routing table to its end; lanes wait meanwhile.")),
		stops:       counterVec("partition_stops_total", "Partitions stopped by an error.", "topic", "partition"),
	}
}

// collectors lists them for registration.
func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{
		m.rebalances, m.commits, m.commitErrs, m.fetchErrs, m.retries, m.skipped, m.deadLetters, m.deadErrs, m.late, m.lateLetters,
		m.panics, m.timeouts, m.lost, m.resets, m.control, m.noTenant, m.notOwned, m.stops, m.stalls, m.reread, m.ignored,
		m.stale, m.foreign, m.fences, m.tableErrs,
	}
}

func counterOpts(name, help string) prometheus.CounterOpts {
	return prometheus.CounterOpts{Name: metricPrefix + name, Help: help}
}

func counterVec(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(counterOpts(name, help), labels)
}

// durations is a histogram that takes many equal observations at once, since
// one lock per record would cost more than a cheap handler. It is guarded by
// its owner.
type durations struct {
	counts [len(durationBounds) + 1]uint64
	sum    float64 // seconds
}

// durationBounds are the upper bounds of the buckets, in seconds.
var durationBounds = [...]float64{
	1e-5, 1e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800,
}

// observe notes n durations of the given number of seconds each.
func (d *durations) observe(seconds float64, n uint64) {
	d.counts[sort.SearchFloat64s(durationBounds[:], seconds)] += n
	d.sum += seconds * float64(n)
}

// metric returns the histogram as it is now.
func (d *durations) metric(desc *prometheus.Desc, labels ...string) prometheus.Metric {
	buckets := make(map[float64]uint64, len(durationBounds))
	var total uint64
	for i, bound := range durationBounds {
		total += d.counts[i]
		buckets[bound] = total
	}
	total += d.counts[len(durationBounds)]
	return prometheus.MustNewConstHistogram(desc, total, d.sum, buckets, labels...)
}
