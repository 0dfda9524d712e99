package consumer

import (
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tenantlane/tenantlane/consumer/lane"
)

// collector reads what the hot path counts under the engine's lock.
type collector struct {
	rt *Runtime

	handled, committedLag, end, runnableLag, distance  *prometheus.Desc // topic, partition
	tenantDepth, tenantRate                            *prometheus.Desc // tenant, state
	handler, queue                                     *prometheus.Desc // tier
	lanes, tenants, runnable, records, bytes, inFlight *prometheus.Desc
	workers, stuck, assigned, parked, pollAge          *prometheus.Desc
	waiting, waited                                    *prometheus.Desc // reason
	behindTable                                        *prometheus.Desc

	resourceHeld, resourceWaiting, resourceGiven, resourceWaits *prometheus.Desc // resource
}

func newCollector(rt *Runtime) *collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(metricPrefix+name, help, labels, nil)
	}
	return &collector{
		rt:              rt,
		handled:         desc("handled_records_total", "Records done.", "topic", "partition"),
		committedLag:    desc("committed_lag", "High watermark minus the committed offset.", "topic", "partition"),
		end:             desc("high_watermark", "End of the partition as of the last fetch.", "topic", "partition"),
		runnableLag:     desc("runnable_lag", "High watermark minus the first unfinished offset that is neither parked nor paused.", "topic", "partition"),
		distance:        desc("overflow_distance", "Offsets that the cursor is ahead of the furthest lane that it has to read again for and that can run.", "topic", "partition"),
		tenantDepth:     desc("tenant_depth", "Records in memory of the tenants that want a look first.", "tenant", "state"),
		tenantRate:      desc("tenant_rate", "Records a second that they finished lately.", "tenant", "state"),
		handler:         desc("handler_seconds", "Handler time of a record.", "tier"),
		queue:           desc("queue_seconds", "Wait of the first record of each grant.", "tier"),
		lanes:           desc("lanes", "Lanes with unfinished records."),
		tenants:         desc("tenants", "Tenants with an entry."),
		runnable:        desc("useful_workers", "Lanes in hand or runnable: how many workers would have work. For autoscalers."),
		records:         desc("buffered_records", "Unfinished records in memory."),
		bytes:           desc("buffered_bytes", "Bytes that they, and the fetches they pin, are charged."),
		inFlight:        desc("in_flight", "Lanes in workers' hands."),
		workers:         desc("workers", "Goroutines that run handlers."),
		stuck:           desc("stuck_handlers", "Handlers that ignore their deadline."),
		assigned:        desc("assigned_partitions", "Partitions owned."),
		parked:          desc("parked_lanes", "Lanes that wait for an operator."),
		waiting:         desc("move_waiting_lanes", "Lanes that wait for a move: at a fence, for an earlier home, for the table.", "reason"),
		waited:          desc("move_wait_seconds", "How long lanes waited for a move, of those that go on.", "reason"),
		behindTable:     desc("partitions_behind_table", "Partitions that wait until the routing table could be read to its end."),
		resourceHeld:    desc("resource_in_use", "Handlings that have a resource.", "resource"),
		resourceWaiting: desc("resource_waiting", "Handlings that wait for a resource.", "resource"),
		resourceGiven:   desc("resource_waits_given_up_total", "Waits for a resource that ended without it.", "resource"),
		resourceWaits:   desc("resource_wait_seconds", "Waits for a resource that got it.", "resource"),
		pollAge:         desc("poll_age_seconds", "Time since the poll loop last came round."),
	}
}

// Describe lists the metrics.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		c.handled, c.committedLag, c.end, c.runnableLag, c.distance, c.handler, c.queue, c.lanes, c.tenants, c.runnable, c.records, c.bytes,
		c.tenantDepth, c.tenantRate, c.inFlight, c.workers, c.stuck, c.assigned, c.parked, c.pollAge,
		c.waiting, c.waited, c.behindTable, c.resourceHeld, c.resourceWaiting, c.resourceGiven, c.resourceWaits,
	} {
		ch <- d
	}
}

// Collect reads them.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	polled := time.Unix(0, c.rt.polled.Load())
	gauge(c.pollAge, time.Since(polled).Seconds())

	c.collectResources(ch)
	e := c.rt.engine
	if most := c.rt.cfg.TenantMetrics; most > 0 {
		for _, s := range e.choose(TenantFilter{Most: most}) {
			gauge(c.tenantDepth, float64(s.Depth), tenantLabel(s.Tenant), string(s.State))
			gauge(c.tenantRate, s.Rate, tenantLabel(s.Tenant), string(s.State))
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	lanes, parked, behind := 0, 0, 0
	for _, p := range e.parts {
		lanes += p.lanes.Lanes()
		parked += e.parkedLanes(p)
		if p.behindTable {
			behind++
		}
		ch <- prometheus.MustNewConstMetric(c.handled, prometheus.CounterValue, float64(p.handled), p.topic, p.label())
		if p.end >= 0 {
			gauge(c.end, float64(p.end), p.topic, p.label())
			if p.committed >= 0 {
				gauge(c.committedLag, float64(p.end-p.committed), p.topic, p.label())
			}
			gauge(c.runnableLag, float64(e.progressOf(p).RunnableLag), p.topic, p.label())
			gauge(c.distance, float64(e.distance(p)), p.topic, p.label())
		}
	}
	for tier, t := range e.tiers {
		ch <- t.handler.metric(c.handler, tier)
		ch <- t.queue.metric(c.queue, tier)
	}
	c.collectMoves(ch)
	gauge(c.behindTable, float64(behind))
	gauge(c.lanes, float64(lanes))
	gauge(c.parked, float64(parked))
	gauge(c.tenants, float64(e.sched.Tenants()))
	gauge(c.runnable, float64(e.sched.InHand()+e.sched.Runnable()))
	gauge(c.records, float64(e.sched.Records()))
	gauge(c.bytes, float64(e.held))
	gauge(c.inFlight, float64(e.sched.InHand()))
	gauge(c.workers, float64(len(e.workers)))
	gauge(c.stuck, float64(e.stuck))
	gauge(c.assigned, float64(len(e.parts)))
}

// tenantLabel is a tenant as a label, which must be text: quoted if it is not.
func tenantLabel(tenant []byte) string {
	if utf8.Valid(tenant) {
		return string(tenant)
	}
	return strconv.QuoteToASCII(string(tenant))
}

// distance is how far the cursor is ahead of what has to be read again.
func (e *engine) distance(p *partition) int64 {
	if p.progress == nil {
		return 0
	}
	e.overflows = e.sched.Overflows(p.lanes, e.overflows[:0])
	if low := lowest(e.overflows); low != nil {
		return p.progress.Next() - low.First
	}
	return 0
}

// collectMoves reads what waits for moves. The engine's lock is held.
func (c *collector) collectMoves(ch chan<- prometheus.Metric) {
	e := c.rt.engine
	n := e.waitingLanes()
	for why := range whys {
		ch <- prometheus.MustNewConstMetric(c.waiting, prometheus.GaugeValue, float64(n[why]), whyWord(why))
		ch <- e.moves.waited[why].metric(c.waited, whyWord(why))
	}
}

func (e *engine) parkedLanes(p *partition) int {
	n := 0
	e.sched.EachLane(p.lanes, func(l lane.State[entry]) bool {
		if l.Parked {
			n++
		}
		return true
	})
	return n
}

// register exports the metrics, all or none.
func (rt *Runtime) register() error {
	if rt.cfg.Registerer == nil {
		return nil
	}
	all := append(rt.metrics.collectors(), newCollector(rt))
	for i, c := range all {
		if err := rt.cfg.Registerer.Register(c); err != nil {
			for _, done := range all[:i] {
				rt.cfg.Registerer.Unregister(done)
			}
			return fmt.Errorf("consumer.Config: Registerer: %w", err)
		}
	}
	rt.registered = all
	return nil
}

func (rt *Runtime) unregister() {
	for _, c := range rt.registered {
		rt.cfg.Registerer.Unregister(c)
	}
}
