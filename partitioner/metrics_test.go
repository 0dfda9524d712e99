package partitioner

import (
	"context"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tenantlane/tenantlane/partitioner/store"
)

func TestProducerMetrics(t *testing.T) {
	c := cluster(t, 2)
	reg := prometheus.NewPedanticRegistry()
	src := store.Fixed(tableOf(t, pinned(2, map[string]int32{"acme": 0, "held": 1})))
	p := producing(t, c, src, ProducerConfig{Registerer: reg, MaxQueuedRecords: 1})
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "orders", Err: kerr.InvalidRecord, Count: 1})
	_ = p.ProduceSync(patient(t), record("acme", "refused by the broker"))
	if err := p.ProduceSync(patient(t), record("acme", "12345")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	_ = p.ProduceSync(patient(t), &kgo.Record{Topic: "orders"})
	p.Pause("orders", []byte("held"))
	var held outcome
	p.Produce(context.Background(), record("held", 1), held.promise())
	_ = p.ProduceSync(patient(t), record("held", 2))
	metrics := gather(t, reg)
	for want, value := range map[string]float64{
		`records_total orders 0`:                1,
		`refused_total orders 0 produce_failed`: 1,
		`refused_total orders -1 no_tenant`:     1,
		`refused_total orders 1 tenant_moving`:  1,
		`in_flight_records orders 0`:            0,
		`in_flight_bytes orders 0`:              0,
		`queued_records orders`:                 1,
		`table_revision`:                        1,
	} {
		if got, ok := metrics["tenantlane_producer_"+want]; !ok || got != value {
			t.Errorf("%s is %v (%v), want %v", want, got, ok, value)
		}
	}
	if got := metrics["tenantlane_producer_bytes_total orders 0"]; got < 9 || got > float64(9+stampSize) {
		t.Errorf("bytes_total is %v", got)
	}
	p.Resume("orders", []byte("held"))
	held.ok(t)
	if got := gather(t, reg)["tenantlane_producer_gate_seconds orders"]; got != 1 {
		t.Errorf("%v records waited", got)
	}
	if _, err := NewProducer(p.client, src, ProducerConfig{Registerer: reg}); err == nil || !strings.Contains(err.Error(), "WrapRegistererWith") {
		t.Errorf("a second Producer on the registry: %v", err)
	}
	if err := p.Close(patient(t)); err != nil {
		t.Error(err)
	}
	if left := gather(t, reg); len(left) != 0 {
		t.Errorf("metrics left after Close: %v", left)
	}
}

// gather gives each metric by its name and the values of its labels, in the
// order topic, partition, reason; a histogram's count.
func gather(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	metrics := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			labels := map[string]string{}
			for _, pair := range m.GetLabel() {
				labels[pair.GetName()] = pair.GetValue()
			}
			name := family.GetName()
			for _, label := range []string{"topic", "partition", "reason"} {
				if value, ok := labels[label]; ok {
					name += " " + value
				}
			}
			metrics[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return metrics
}
