package consumer

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/consumer/lane"
	"github.com/tenantlane/tenantlane/partitioner"
	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// class is what admission does with a record.
type class uint8

const (
	classLane     class = iota // into its tenant's lane
	classNoTenant              // as Config.NoTenant says
	classMarker                // a transaction's: stepped over
	classControl               // a move's tl-control record
	classUnknown               // a tl-control record of a kind we do not know
)

// headerOverhead is what a header costs in memory beside its bytes.
const headerOverhead = 40

// classified is a record on its way into a lane. The bytes of id are the
// record's own, or scratch's.
type classified struct {
	rec    *kgo.Record
	fields int // bytes of its fields
	class  class
	id     lane.ID

	kind    routing.Kind // as its tl-route header says
	stamped bool         // it has one
	epoch   uint64       // of that header
}

// item is the record as it waits in a lane.
func (c *classified) item(in *arrival) lane.Item[entry] {
	return lane.Item[entry]{
		Offset: c.rec.Offset, Rec: entry{rec: c.rec, in: in}, Bytes: int32(min(c.fields+recordOverhead, 1<<30)),
	}
}

// costed is the record as it waits in a lane, at the price that cost names; nil
// is 1.
func (c *classified) costed(in *arrival, cost func(*kgo.Record) float64) lane.Item[entry] {
	const most = 1e6
	it := c.item(in)
	if cost != nil {
		if price := cost(c.rec); price > 0 { // not a NaN either
			it.Cost = float32(min(price, most))
		}
	}
	return it
}

// classify says in c which lane a record belongs to. Its key may be in scratch,
// which it returns grown: use it before the next call. A record's lane follows the
// kind in its own tl-route header, never the newest table, since a change of
// spread must not give old records another lane. Records without the header
// go by the table.
func (rt *route) classify(c *classified, r *kgo.Record, rule routing.TenantRule, scratch []byte) (grown []byte) {
	*c = classified{rec: r, fields: len(r.Key) + len(r.Value)}
	if r.Attrs.IsControl() {
		c.class = classMarker
		return scratch
	}
	kind, stamped := routing.KindSlot, false
	if len(r.Headers) > 0 {
		if kind, stamped = c.headers(r); c.class != classLane {
			return scratch
		}
	}
	tenant, ok := partitioner.TenantOf(rule, r)
	if !ok {
		c.class = classNoTenant
		return scratch
	}
	c.id.Tenant, c.id.Key, c.id.Tier = tenant, tenant, rt.tierOf(tenant)
	if !stamped {
		kind = rt.kindOf(tenant)
	}
	c.id.Unordered = rt.order == OrderNone || rt.order != OrderKeys && kind == routing.KindSpreadRandom
	switch {
	case rt.order == OrderKeys:
		scratch = appendPart(scratch, tenant, rt.orderKey(r))
	case rt.order == OrderNone:
		return scratch
	case kind == routing.KindSpreadRandom:
		scratch = append(append(scratch, keyMark, keyUnordered), tenant...)
	case kind == routing.KindSpreadKey:
		scratch = appendPart(scratch, tenant, r.Key)
	case tenant[0] == keyMark:
		scratch = append(append(scratch, keyMark, keyTenant), tenant...)
	default:
		return scratch
	}
	c.id.Key = scratch
	return scratch
}

// A lane's key is its tenant, but for lanes of another kind, whose keys begin
// with a byte that begins no text, and tenants that begin with it too. So no
// tenant can have a name that is another one's lane.
const (
	keyMark      = 0xff
	keyTenant    = 0 // a tenant that begins with the mark
	keyPart      = 1 // a part of a tenant that has an order of its own
	keyUnordered = 2 // a tenant's records that have none
)

// headers reads what the record's headers say of its way: its kind, or that it
// is for the runtime itself.
func (c *classified) headers(r *kgo.Record) (kind routing.Kind, stamped bool) {
	for i := range r.Headers {
		h := &r.Headers[i]
		c.fields += headerOverhead + len(h.Key) + len(h.Value)
		switch h.Key {
		case routing.HeaderControl:
			c.class = classControl
			if _, err := routing.ParseControl(h.Value); err != nil {
				c.class = classUnknown
			}
			return 0, false
		case routing.HeaderRoute:
			if parsed, err := routing.ParseRouteHeader(h.Value); err == nil {
				kind, stamped = parsed.Kind, true
				c.kind, c.stamped, c.epoch = kind, true, parsed.Epoch
			}
		}
	}
	return kind, stamped
}

// appendPart appends the lane key of a part of a tenant.
func appendPart(dst, tenant, key []byte) []byte {
	dst = append(dst, keyMark, keyPart)
	dst = binary.AppendUvarint(dst, uint64(len(tenant)))
	dst = append(dst, tenant...)
	return append(dst, key...)
}

// route is what the table says of one topic, as admission needs it.
type route struct {
	order    Order
	orderKey func(*kgo.Record) []byte

	topic  *routing.Topic // nil: the table does not name it
	tiers  map[string]lane.TierID
	spread map[string]bool // tenants placed with spread: key
}

func (rt *route) tierOf(tenant []byte) lane.TierID {
	if len(rt.tiers) == 0 {
		return 0
	}
	return rt.tiers[rt.topic.Tier(tenant).Name]
}

func (rt *route) kindOf(tenant []byte) routing.Kind {
	if len(rt.spread) > 0 && rt.spread[string(tenant)] {
		return routing.KindSpreadKey
	}
	return routing.KindSlot
}
