package partitioner

import (
	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// route decides where a flight goes by a table.
func (p *Producer) route(f *flight, table *routing.Table) error {
	v := f.topic.by(table)
	f.revision, f.tenant, f.kind, f.epoch = table.Revision(), nil, 0, 0
	f.gates, f.move, f.wrapped = 0, nil, v.topic != nil && v.topic.Wrapped()
	if f.reserved {
		p.placeAt(f, f.topic.own, -1)
		return ErrReservedHeader
	}
	if v.topic == nil {
		p.placeAt(f, f.topic.own, byFallback)
		return nil
	}
	tenant, ok := TenantOf(v.rule, &f.rec)
	if !ok {
		return p.routeWithoutTenant(f, v)
	}
	f.tenant = tenant
	f.passes[0], f.gates = f.topic, 1
	d, home, r := f.topic.own, v.topic, v.topic.Lookup(tenant, f.rec.Key)
	if r.Topic != "" {
		other := p.topicOf(r.Topic)
		f.passes[1], f.gates = other, 2
		d = other.own
		to, ok := table.Topic(r.Topic)
		if !ok {
			p.placeAt(f, d, byFallback)
			return nil
		}
		f.wrapped = f.wrapped || to.Wrapped()
		home, r = to, to.Lookup(tenant, f.rec.Key)
	}
	f.kind, f.epoch = r.Kind, r.Epoch
	if home.Moving() {
		f.move = home.OpenMove(tenant, r.Slot, r.Kind)
	}
	if r.Kind == routing.KindSpreadRandom {
		r.Partition = p.spread.pick(r.Partitions)
	}
	p.placeAt(f, d, r.Partition)
	if r.Partition < 0 {
		return ErrNoKey
	}
	return nil
}

func (p *Producer) routeWithoutTenant(f *flight, v *topicView) error {
	if p.own.cfg.OnNoTenant != SpreadNoTenant {
		p.placeAt(f, f.topic.own, -1)
		return ErrNoTenant
	}
	f.kind = routing.KindSpreadRandom
	p.placeAt(f, f.topic.own, p.spread.pick(v.shared))
	return nil
}

func (p *Producer) placeAt(f *flight, d *dest, partition int32) {
	f.rec.Topic, f.partition, f.part = d.name, partition, d.part(max(partition, -1))
}
