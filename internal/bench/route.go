package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/partitioner"
	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

// RouteConfig says what lookups to time. The zero value works but for Tenants.
type RouteConfig struct {
	// Tenants are the keys of the records that are looked up, in turn.
	Tenants []string
	// Placements are the sizes of the tables that are timed; 0 and 10,000 by
	// default. Their tenants are not among Tenants.
	Placements []int
	// Partitions, Slots and Hash of the table; 32, 4,096 and xxhash64 by
	// default.
	Partitions, Slots int32
	Hash              routing.Hash
	// Lookups for each figure of a run; 1,000,000 by default.
	Lookups int
	// Runs whose median counts; 5 by default.
	Runs int
	// Progress is told of each table that is done.
	Progress Progress
}

func (c RouteConfig) withDefaults() RouteConfig {
	if len(c.Placements) == 0 {
		c.Placements = []int{0, 10_000}
	}
	c.Partitions, c.Slots = cmp.Or(c.Partitions, 32), cmp.Or(c.Slots, 4096)
	c.Lookups, c.Runs = cmp.Or(c.Lookups, 1_000_000), cmp.Or(c.Runs, 5)
	return c
}

func (c RouteConfig) validate() error {
	if len(c.Tenants) == 0 {
		return errors.New("Tenants are missing")
	}
	if c.Lookups < 1 || c.Runs < 1 {
		return fmt.Errorf("Lookups %d and Runs %d must be at least 1", c.Lookups, c.Runs)
	}
	return nil
}

// RouteReport compares a lookup through the Partitioner with one through kgo's
// StickyKeyPartitioner, which every key-hashing producer pays today. NS, BareNS,
// Ratio and Allocs are those of the table with the highest ratio.
type RouteReport struct {
	NS     float64      `json:"ns"`
	BareNS float64      `json:"bare_ns"`
	Ratio  float64      `json:"ratio"`
	Allocs float64      `json:"allocs"`
	Tables []RouteTable `json:"tables"`
}

// RouteTable is the comparison for one table. A table with placements has the
// figure for tenants that all have one beside it.
type RouteTable struct {
	Placements int     `json:"placements"`
	NS         float64 `json:"ns"`
	BareNS     float64 `json:"bare_ns"`
	Ratio      float64 `json:"ratio"`
	Allocs     float64 `json:"allocs"`
	AllHitNS   float64 `json:"all_hit_ns,omitempty"`
}

// Route times lookups the way kgo makes them: RequiresConsistency and then
// Partition (or PartitionByBackup) for each record. Both sides take short turns
// within each run, so that what disturbs one disturbs the other.
func Route(ctx context.Context, cfg RouteConfig) (RouteReport, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return RouteReport{}, fmt.Errorf("bench route: %w", err)
	}
	var report RouteReport
	for i, n := range cfg.Placements {
		table, err := routeTable(ctx, cfg, n)
		if err != nil {
			return RouteReport{}, fmt.Errorf("bench route: %d placements: %w", n, err)
		}
		report.Tables = append(report.Tables, table)
		cfg.Progress.tell(i+1, len(cfg.Placements))
		if table.Ratio > report.Ratio {
			report.NS, report.BareNS, report.Ratio, report.Allocs = table.NS, table.BareNS, table.Ratio, table.Allocs
		}
	}
	return report, nil
}

func routeTable(ctx context.Context, cfg RouteConfig, placements int) (RouteTable, error) {
	spec := routing.TopicSpec{
		Partitions: cfg.Partitions, Slots: cfg.Slots, Hash: cfg.Hash, Epoch: 1,
		Placements: make(map[string]routing.Placement, placements),
	}
	placed := make([]string, placements)
	for i := range placed {
		placed[i] = fmt.Sprintf("@placed-%06d/service", i)
		spec.Placements[placed[i]] = routing.Placement{Partitions: []int32{int32(i) % cfg.Partitions}, Epoch: 1}
	}
	table, err := routing.NewTable(routing.Spec{Revision: 1, Topics: map[string]routing.TopicSpec{routeTopic: spec}})
	if err != nil {
		return RouteTable{}, err
	}
	sides := []*side{
		newSide(kgo.StickyKeyPartitioner(nil), cfg, cfg.Tenants),
		newSide(partitioner.New(store.Fixed(table), partitioner.Config{}), cfg, cfg.Tenants),
	}
	if placements > 0 {
		sides = append(sides, newSide(partitioner.New(store.Fixed(table), partitioner.Config{}), cfg, placed))
	}
	if err := timeSides(ctx, cfg, sides); err != nil {
		return RouteTable{}, err
	}
	result := RouteTable{Placements: placements, BareNS: sides[0].ns(), NS: sides[1].ns(), Allocs: sides[1].allocs()}
	result.Ratio = result.NS / result.BareNS
	if placements > 0 {
		result.AllHitNS = sides[2].ns()
	}
	return result, nil
}

const routeTopic = "bench"

// side is a partitioner, the records that it is asked for, and its times.
type side struct {
	parts      kgo.TopicPartitioner
	backup     kgo.TopicBackupPartitioner // nil if it is none
	records    []kgo.Record
	partitions int
	next       int
	perRun     []float64 // nanoseconds for one lookup
	mallocs    uint64
	lookups    int
}

func newSide(p kgo.Partitioner, cfg RouteConfig, tenants []string) *side {
	s := &side{parts: p.ForTopic(routeTopic), partitions: int(cfg.Partitions)}
	s.backup, _ = s.parts.(kgo.TopicBackupPartitioner)
	for _, tenant := range tenants[:min(len(tenants), maxRecords)] {
		s.records = append(s.records, kgo.Record{Topic: routeTopic, Key: []byte(tenant), Context: context.Background()})
	}
	return s
}

const (
	// maxRecords keeps the records themselves within the processor's caches.
	maxRecords = 1024
	// turn is how many lookups one side makes before the other's turn.
	turn = 10_000
)

// look makes n lookups as kgo does.
func (s *side) look(n int) {
	at := s.next
	for range n {
		r := &s.records[at]
		if at++; at == len(s.records) {
			at = 0
		}
		s.parts.RequiresConsistency(r)
		if s.backup != nil {
			s.backup.PartitionByBackup(r, s.partitions, nil)
		} else {
			s.parts.Partition(r, s.partitions)
		}
	}
	s.next = at
}

func (s *side) ns() float64 { return median(s.perRun) }

func (s *side) allocs() float64 { return math.Round(float64(s.mallocs)/float64(s.lookups)*100) / 100 }

func timeSides(ctx context.Context, cfg RouteConfig, sides []*side) error {
	runtime.LockOSThread() // the clock is the thread's
	defer runtime.UnlockOSThread()
	for _, s := range sides {
		s.look(turn) // warm up
	}
	for range cfg.Runs {
		spent := make([]float64, len(sides))
		done := 0
		for ; done < cfg.Lookups; done += turn {
			if err := ctx.Err(); err != nil {
				return err
			}
			for i, s := range sides {
				spent[i] += s.timed(turn)
			}
		}
		for i, s := range sides {
			s.perRun = append(s.perRun, spent[i]/float64(done))
		}
	}
	for _, s := range sides {
		s.countAllocs(turn)
	}
	return nil
}

// timed gives the nanoseconds that n lookups took.
func (s *side) timed(n int) float64 {
	begun := threadTime()
	s.look(n)
	return float64((threadTime() - begun).Nanoseconds())
}

func (s *side) countAllocs(n int) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s.look(n)
	runtime.ReadMemStats(&after)
	s.mallocs += after.Mallocs - before.Mallocs
	s.lookups += n
}

// median of at least one figure; of an even count the lower one.
func median(figures []float64) float64 {
	sorted := slices.Sorted(slices.Values(figures))
	return sorted[(len(sorted)-1)/2]
}
