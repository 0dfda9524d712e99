package consumer

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// saturation is a worker in virtual time whose tenants always have records:
// each handling takes a millisecond of one of four workers.
type saturation struct {
	*bench
	mu sync.Mutex
	// guards handlings
	handlings map[string]int // by the tenant's name up to the dash, failed ones too
	trouble   func(ctx context.Context, r *Record) error
}

const millisecond = time.Millisecond

func (s *saturation) handle(ctx context.Context, r *Record) error {
	kind, _, _ := strings.Cut(string(r.Tenant), "-")
	if kind == "hang" {
		return s.trouble(ctx, r)
	}
	<-time.After(millisecond) // virtual
	s.mu.Lock()
	s.handlings[kind]++
	s.mu.Unlock()
	if kind == "bad" {
		return s.trouble(ctx, r)
	}
	return nil
}

// feed keeps so many tenants of a kind in work for some virtual seconds, beside
// what else was admitted, and returns how often each kind's handler ran.
func (s *saturation) feed(seconds int, tenants map[string]int) map[string]int {
	s.mu.Lock()
	clear(s.handlings)
	s.mu.Unlock()
	for range seconds * 20 { // 4,000 handlings a second can be done: 200 in each step
		var records []*kgo.Record
		for kind, n := range tenants {
			for i := range n {
				name := fmt.Appendf(nil, "%s-%d", kind, i)
				records = s.append(records, name, max(300-s.statusOf(name).Depth, 0))
			}
		}
		if len(records) > 0 {
			s.fetched(0, records...)
		}
		pass(50 * millisecond)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.handlings)
}

// append adds n records of a tenant.
func (s *saturation) append(records []*kgo.Record, tenant []byte, n int) []*kgo.Record {
	for range n {
		records = append(records, &kgo.Record{Topic: "orders", Offset: s.next[0], Key: tenant, Value: []byte("x")})
		s.next[0]++
	}
	return records
}

// saturated runs f with a saturated worker.
func saturated(t *testing.T, cfg Config, f func(s *saturation)) {
	t.Helper()
	s := &saturation{handlings: map[string]int{}}
	cfg.Concurrency, cfg.LaneRecords = 4, 1<<20
	inBubble(t, cfg, s.handle, func(b *bench) {
		s.bench = b
		b.open(topicPartition{"orders", 0}, begin{epoch: -1, committed: unknownOffset}, 1)
		f(s)
	})
}

// What a tenant in trouble takes from the others is no more than its handlings
// took, and no more than its share.
func TestTenantsInTroubleTakeNoMoreThanTheirShare(t *testing.T) {
	const quiet, seconds = 10, 10
	release := make(chan struct{})
	for _, c := range []struct {
		name    string
		trouble string
		tenants int
		do      func(ctx context.Context, r *Record) error
		least   float64 // of the others' handlings without the trouble
	}{
		{"every record of one fails", "bad", 1, func(context.Context, *Record) error { return errTest }, 10.0 / 11},
		{"one hangs and ignores its deadline", "hang", 1, func(context.Context, *Record) error {
			<-release
			return nil
		}, 10.0 / 11},
		// They come again after up to two seconds each: 1,000 handlings in two
		// seconds of 8,000.
		{"a thousand are in retry", "bad", 1000, func(context.Context, *Record) error { return errTest }, 0.7},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := Config{HandlerTimeout: time.Second, Retry: Retry{Min: 500 * millisecond, Max: 2 * time.Second}}
			saturated(t, cfg, func(s *saturation) {
				release = make(chan struct{})
				s.trouble = c.do
				alone := s.feed(seconds, map[string]int{"quiet": quiet})
				var records []*kgo.Record
				for i := range c.tenants {
					records = s.append(records, fmt.Appendf(nil, "%s-%d", c.trouble, i), 3)
				}
				s.fetched(0, records...)
				beside := s.feed(seconds, map[string]int{"quiet": quiet})
				t.Logf("others: %d handlings alone, %d beside %d of those in trouble", alone["quiet"], beside["quiet"], beside["bad"])
				if alone["quiet"] < 3900*seconds {
					t.Errorf("%d handlings in %d s are no saturation", alone["quiet"], seconds)
				}
				if got := beside["quiet"]; float64(got) < 0.99*c.least*float64(alone["quiet"]) {
					t.Errorf("others had %d handlings, %d without", got, alone["quiet"])
				}
				if c.trouble == "bad" && float64(beside["quiet"]+beside["bad"]) < 0.98*float64(alone["quiet"]) {
					t.Error("workers waited for what backs off")
				}
				close(release)
				synctest.Wait()
			})
		})
	}
}

// Two tiers of weights 50 and 10 that both have more than can be done get 5 to 1
// of the handler time, whatever the number of their tenants.
func TestTwoTiersGetTheirSharesOfHandlerTime(t *testing.T) {
	for _, c := range []struct{ gold, bronze int }{{5, 5}, {2, 40}, {40, 2}} {
		spec := routing.TopicSpec{
			Partitions: 1, Tiers: map[string]routing.Tier{"gold": {Weight: 50, MaxConcurrency: 100}, "bronze": {Weight: 10, MaxConcurrency: 100}},
			Placements: map[string]routing.Placement{},
		}
		for tier, n := range map[string]int{"gold": c.gold, "bronze": c.bronze} {
			for i := range n {
				spec.Placements[fmt.Sprintf("%s-%d", tier, i)] = routing.Placement{Partitions: []int32{0}, Tier: tier}
			}
		}
		table, err := routing.NewTable(routing.Spec{Revision: 1, Topics: map[string]routing.TopicSpec{"orders": spec}})
		if err != nil {
			t.Fatal(err)
		}
		saturated(t, Config{Table: &tableSource{table: table}, TenantConcurrency: -1, Order: OrderNone}, func(s *saturation) {
			s.feed(1, map[string]int{"gold": c.gold, "bronze": c.bronze})
			counts := s.feed(10, map[string]int{"gold": c.gold, "bronze": c.bronze})
			t.Logf("%+v: %v", c, counts)
			if ratio := float64(counts["gold"]) / float64(counts["bronze"]); ratio < 4.75 || ratio > 5.25 {
				t.Errorf("%d gold and %d bronze tenants: %d to %d handlings, want 5 to 1", c.gold, c.bronze, counts["gold"], counts["bronze"])
			}
		})
	}
}
