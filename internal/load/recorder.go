package load

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/internal/check"
	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

// keysPerTenant is how many keys a tenant's records have where the key is not
// the tenant itself.
const keysPerTenant = 16

// Recorder makes checkable records of one topic and numbers their sequences.
// It belongs to one goroutine.
type Recorder struct {
	// Topic that the records are for.
	Topic string
	// Producer names this source of records; two that ever write to the same
	// topic need different names.
	Producer string
	// Size of values in bytes; shorter than the fields means no padding.
	Size int
	// Table says where the tenant is in a record and how it is placed. Nil, or
	// a topic that it does not name: the tenant is the key.
	Table store.Source

	next map[sequenceKey]uint64
}

// sequenceKey is what records are numbered by: a tenant, or one key of a
// tenant that is placed with spread: key.
type sequenceKey struct{ tenant, key string }

// Record makes the tenant's next record, stamped with now. The Handling has
// what its log line needs, but for the partition and offset that the broker
// gives.
func (r *Recorder) Record(tenant string, now time.Time) (*kgo.Record, check.Handling) {
	record := &kgo.Record{Topic: r.Topic}
	h := check.Handling{ID: check.ID{Producer: r.Producer, Tenant: tenant}}
	topic := r.routes()
	rule := routing.TenantRule{}
	if topic != nil {
		rule = topic.TenantRule()
	}
	id := sequenceKey{tenant: tenant}
	key := strconv.FormatUint(r.next[id]%keysPerTenant, 10)
	record.Key = keyOf(rule, tenant, key)
	if rule.From == routing.FromHeader {
		record.Headers = []kgo.RecordHeader{{Key: rule.Arg, Value: []byte(tenant)}}
	}
	if topic != nil {
		switch topic.Lookup([]byte(tenant), record.Key).Kind {
		case routing.KindSpreadKey:
			r.count(id) // so that the next record takes the next key
			id.key = string(record.Key)
			h.Producer = fmt.Sprintf("%s/%s", r.Producer, key)
		case routing.KindSpreadRandom:
			h.Unordered = true
		}
	}
	h.Seq = r.count(id)
	value := Value{ID: h.ID, Seq: h.Seq, Time: now, Unordered: h.Unordered}
	record.Value = value.Append(make([]byte, 0, max(r.Size, 160)), r.Size)
	return record, h
}

// routes is the topic's entry in the table of now, or nil.
func (r *Recorder) routes() *routing.Topic {
	if r.Table == nil {
		return nil
	}
	topic, _ := r.Table.Table().Topic(r.Topic)
	return topic
}

func (r *Recorder) count(id sequenceKey) uint64 {
	if r.next == nil {
		r.next = map[sequenceKey]uint64{}
	}
	r.next[id]++
	return r.next[id]
}

func keyOf(rule routing.TenantRule, tenant, key string) []byte {
	switch rule.From {
	case routing.FromHeader:
		return []byte(key)
	case routing.FromPrefix:
		return []byte(tenant + rule.Arg + key)
	default:
		return []byte(tenant)
	}
}

// CheckTenants refuses tenants that the topic's tenant_of could not read back
// from a record, naming the first.
func (r *Recorder) CheckTenants(p Population) error {
	topic := r.routes()
	if topic == nil || topic.TenantRule().From != routing.FromPrefix {
		return nil
	}
	separator := topic.TenantRule().Arg
	for _, v := range p.Tenants {
		if strings.Contains(v.Tenant, separator) {
			return fmt.Errorf("tenant %q holds %q, which ends the tenant in keys of topic %q", v.Tenant, separator, r.Topic)
		}
	}
	return nil
}
