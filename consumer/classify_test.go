package consumer

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// TestNoTenantIsAnotherOnesLane gives tenants names that look like lane keys.
func TestNoTenantIsAnotherOnesLane(t *testing.T) {
	kinds := []routing.Kind{routing.KindSlot, routing.KindTenant, routing.KindSpreadKey, routing.KindSpreadRandom}
	type lane struct {
		tenant, key string
		unordered   bool
	}
	lanes := map[string]lane{}
	rule := routing.TenantRule{From: routing.FromHeader, Arg: "tenant"}
	classifyAs := func(tenant, key string, kind routing.Kind) string {
		r := &kgo.Record{Key: []byte(key), Headers: []kgo.RecordHeader{
			{Key: "tenant", Value: []byte(tenant)},
			{Key: routing.HeaderRoute, Value: routing.RouteHeader{Kind: kind}.Append(nil)},
		}}
		var c classified
		(&route{}).classify(&c, r, rule, nil)
		if c.class != classLane || string(c.id.Tenant) != tenant {
			t.Fatalf("tenant %q is read as %q, class %d", tenant, c.id.Tenant, c.class)
		}
		is := lane{tenant: tenant, unordered: kind == routing.KindSpreadRandom}
		if kind == routing.KindSpreadKey {
			is.key = "key " + key
		}
		if c.id.Unordered != is.unordered {
			t.Errorf("kind %v: unordered %v", kind, c.id.Unordered)
		}
		if was, ok := lanes[string(c.id.Key)]; ok && was != is {
			t.Errorf("%+v and %+v have one lane %q", was, is, c.id.Key)
		}
		lanes[string(c.id.Key)] = is
		return string(c.id.Key)
	}
	tenants := []string{"acme", "acmek", "\x04acmek", "\xff", "\xff\x00", "\xff\x02acme"}
	for range 2 { // the second time some are called like the lanes of the first
		for _, tenant := range tenants {
			for _, kind := range kinds {
				for _, key := range []string{"", "k", "acme"} {
					tenants = append(tenants, classifyAs(tenant, key, kind))
				}
			}
		}
	}
}
