package adopt

import (
	"context"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/internal/sample"
	"github.com/tenantlane/tenantlane/partitioner"
	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// Config says how much Verify reads. The zero value works.
type Config struct {
	// PerPartition is how many of each partition's last offsets are read.
	// Default 1,000.
	PerPartition int64
	// Differences is how many differences the report names. Default 10.
	Differences int
	// Progress is told how many of how many offsets are done, from Verify's own
	// goroutine; nil for nobody.
	Progress func(done, of int64)
}

func (c Config) withDefaults() Config {
	if c.PerPartition == 0 {
		c.PerPartition = 1000
	}
	if c.Differences == 0 {
		c.Differences = 10
	}
	if c.Progress == nil {
		c.Progress = func(int64, int64) {}
	}
	return c
}

func (c Config) validate() error {
	switch {
	case c.PerPartition < 1:
		return fmt.Errorf("PerPartition is %d, must be at least 1", c.PerPartition)
	case c.Differences < 1:
		return fmt.Errorf("Differences is %d, must be at least 1", c.Differences)
	}
	return nil
}

// Report is what Verify found.
type Report struct {
	// Records that were compared: those with a tenant, except Older.
	Records int64
	// Matching of them lie where the table says.
	Matching int64
	// Differences are the first that do not, in the order of partitions and
	// offsets.
	Differences []Difference
	// WithoutTenant counts records that name no tenant, Older those whose
	// tl-route header tells that they were routed before the tenant's present
	// placement, Control those of TenantLane itself. None of them is compared.
	WithoutTenant, Older, Control int64
}

// Share is the part of the compared records that match, 0 to 1; 0 without any.
func (r *Report) Share() float64 {
	if r.Records == 0 {
		return 0
	}
	return float64(r.Matching) / float64(r.Records)
}

// Difference is a record that does not lie where the table says.
type Difference struct {
	Partition int32
	Offset    int64
	Tenant    []byte
	// Want are the partitions that the table allows; none when it sends the
	// tenant to WantTopic.
	Want      []int32
	WantTopic string
}

// Verify reads the tail of a topic and compares where its records lie with
// where the table says. The client is borrowed. It fails when the topic is
// unknown, has fewer partitions than the table says, or cannot be read.
func Verify(ctx context.Context, client *kgo.Client, topic *routing.Topic, cfg Config) (Report, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return Report{}, fmt.Errorf("adopt: config: %w", err)
	}
	reader, err := sample.NewReader(client, sample.Config{MaxBytes: 1 << 20})
	if err != nil {
		return Report{}, err
	}
	spans, err := reader.Tail(ctx, topic.Name(), cfg.PerPartition)
	if err != nil {
		return Report{}, err
	}
	if have := len(spans); have < int(topic.Partitions()) {
		return Report{}, fmt.Errorf("topic %q has %d partitions, fewer than the %d of the table", topic.Name(), have, topic.Partitions())
	}
	var done, of int64
	for _, s := range spans {
		of += s.To - s.From
	}
	var r Report
	for _, s := range spans {
		cfg.Progress(done, of)
		if err := reader.Range(ctx, topic.Name(), s, func(rec *kgo.Record) bool {
			r.count(topic, rec, cfg.Differences)
			return true
		}); err != nil {
			return r, err
		}
		done += s.To - s.From
	}
	cfg.Progress(done, of)
	return r, nil
}

// count compares one record with the table.
func (r *Report) count(topic *routing.Topic, rec *kgo.Record, most int) {
	if header(rec, routing.HeaderControl) != nil {
		r.Control++
		return
	}
	tenant, ok := partitioner.TenantOf(topic.TenantRule(), rec)
	if !ok {
		r.WithoutTenant++
		return
	}
	route := topic.Lookup(tenant, rec.Key)
	if stamp, err := routing.ParseRouteHeader(header(rec, routing.HeaderRoute)); err == nil && stamp.Epoch < route.Epoch {
		r.Older++
		return
	}
	r.Records++
	if matches(route, rec.Partition) {
		r.Matching++
		return
	}
	if len(r.Differences) < most {
		r.Differences = append(r.Differences, Difference{
			Partition: rec.Partition, Offset: rec.Offset, Tenant: slices.Clone(tenant), Want: wanted(route), WantTopic: route.Topic,
		})
	}
}

func matches(route routing.Route, partition int32) bool {
	if route.Topic != "" {
		return false
	}
	return slices.Contains(wanted(route), partition)
}

// wanted are the partitions that a record may lie on: one, or any of a random spread.
func wanted(route routing.Route) []int32 {
	if route.Partition >= 0 {
		return []int32{route.Partition}
	}
	return slices.Clone(route.Partitions)
}

func header(rec *kgo.Record, key string) []byte {
	for _, h := range rec.Headers {
		if h.Key == key {
			return h.Value
		}
	}
	return nil
}
