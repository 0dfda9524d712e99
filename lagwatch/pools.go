package lagwatch

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/lagwatch/lag"
	"github.com/tenantlane/tenantlane/partitioner"
	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// layout is what the routing table says about one topic: which pool each
// partition is in, and how to read a tenant. The zero value is a topic that no
// table knows.
type layout struct {
	pools map[int32]string // partitions outside the shared pool
	rule  routing.TenantRule
}

// layoutOf reads a topic's layout from a table, which may be nil. A partition
// that whales own together belongs to a pool with all their names, as they are
// shown outside.
func layoutOf(table *routing.Table, topic string, shown func(tenant string) string) layout {
	if table == nil {
		return layout{}
	}
	t, ok := table.Topic(topic)
	if !ok {
		return layout{}
	}
	l := layout{pools: map[int32]string{}, rule: t.TenantRule()}
	shared := t.Shared()
	owners := map[int32][]string{}
	for _, tenant := range t.PlacedTenants() {
		placement, _ := t.Placement(tenant)
		if placement.Topic != "" {
			continue
		}
		for _, p := range placement.Partitions {
			if !slices.Contains(shared, p) {
				owners[p] = append(owners[p], shown(tenant))
			}
		}
	}
	for p, names := range owners {
		l.pools[p] = strings.Join(names, "+")
	}
	return l
}

// poolOf names a partition's pool.
func (l layout) poolOf(partition int32) string {
	if name, ok := l.pools[partition]; ok {
		return name
	}
	return lag.SharedPool
}

// tenantOf reads a record's tenant; false when it has none.
func (l layout) tenantOf(r *kgo.Record) ([]byte, bool) { return partitioner.TenantOf(l.rule, r) }
