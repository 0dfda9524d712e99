package lagwatch

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/internal/sample"
	"github.com/tenantlane/tenantlane/lagwatch/lag"
	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/rebalance/move"
)

// StaleLook is what a look at the newest records of a topic found: those that
// lie where the table does not send them.
type StaleLook struct {
	Topic string `json:"topic"`
	// Looked is how many records were read.
	Looked int           `json:"looked"`
	Found  []StaleRecord `json:"found,omitempty"` // at most staleKept
}

// StaleRecord is a record that lies where the table does not send it.
type StaleRecord struct {
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Tenant    []byte `json:"tenant"`
	// Fenced is true when it lies behind a fence: workers set it aside.
	Fenced bool `json:"fenced,omitempty"`
}

const (
	staleKept       = 16
	stalePartitions = 64               // looked at in a sweep
	staleTail       = 1000             // offsets of each, at most
	stalePlaces     = 4                // looks at each
	staleGrace      = 5 * time.Minute  // in which producers get a new table
	staleTime       = 20 * time.Second // for a sweep's looks
)

// tableSince is since when a topic's routes are as they are.
type tableSince struct {
	Epoch uint64    `json:"epoch"`
	Since time.Time `json:"since"`
}

// followTable notes when the routes of a topic change.
func (e *engine) followTable(at time.Time) {
	if e.table == nil {
		return
	}
	for _, name := range e.table.TopicNames() {
		t, _ := e.table.Topic(name)
		if seen, ok := e.routedSince[name]; !ok || seen.Epoch != t.Epoch() {
			e.routedSince[name] = tableSince{t.Epoch(), at}
		}
	}
}

// lookForStale reads some of the newest records of each swept topic, for the
// next round.
func (w *Watcher) lookForStale(ctx context.Context, s *sampler) {
	swept := s.sweepSeen
	s.sweepSeen = nil
	if swept == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, staleTime)
	defer cancel()
	reader, err := sample.NewReader(s.client, sample.Config{Places: stalePlaces})
	if err != nil {
		w.log.Error("cannot look for stale records", zap.Error(err))
		return
	}
	for i := range swept.Topics {
		t := w.engine.tableTopic(swept.Topics[i].Topic)
		if t == nil || swept.Topics[i].Partitions <= 0 {
			continue
		}
		look, err := lookAt(ctx, reader, t, &swept.Topics[i], w.engine.routedSince[t.Name()].Since)
		if err != nil {
			w.log.Warn("cannot see whether records lie where the table sends them", zap.String("topic", t.Name()), zap.Error(err))
			continue
		}
		s.staleSeen = append(s.staleSeen, look)
	}
}

// lookAt looks at the ends of some partitions of a topic.
func lookAt(ctx context.Context, reader *sample.Reader, t *routing.Topic, swept *SweptTopic, since time.Time) (StaleLook, error) {
	look := StaleLook{Topic: t.Name()}
	order := rand.Perm(swept.Partitions)
	for _, p := range order[:min(len(order), stalePartitions)] {
		start, end := offsetOf(swept.Start, p), offsetOf(swept.End, p)
		if start < 0 || end <= start {
			continue
		}
		n, err := reader.Random(ctx, t.Name(), int32(p), max(start, end-staleTail), end, func(rec *kgo.Record) {
			if found, is := staleRecord(t, rec, since); is && len(look.Found) < staleKept {
				look.Found = append(look.Found, found)
			}
		})
		if err != nil {
			return look, err
		}
		look.Looked += n
	}
	slices.SortFunc(look.Found, func(a, b StaleRecord) int {
		if a.Partition != b.Partition {
			return int(a.Partition - b.Partition)
		}
		return int(a.Offset - b.Offset)
	})
	return look, nil
}

// staleRecord judges a record: it is behind the fence that ended its unit's
// time in the partition, or it is younger than the routes and lies elsewhere. A
// record's own time decides, so that an old one that was imported counts as old.
func staleRecord(t *routing.Topic, rec *kgo.Record, since time.Time) (StaleRecord, bool) {
	if hasHeader(rec, routing.HeaderControl) {
		return StaleRecord{}, false
	}
	tenant, ok := layout{rule: t.TenantRule()}.tenantOf(rec)
	if !ok {
		return StaleRecord{}, false
	}
	found := StaleRecord{Partition: rec.Partition, Offset: rec.Offset, Tenant: tenant}
	route := t.Lookup(tenant, rec.Key)
	placed := move.Placed{Tenant: tenant, Slot: route.Slot, Partition: rec.Partition, Offset: rec.Offset}
	for _, h := range rec.Headers {
		if h.Key != routing.HeaderRoute {
			continue
		}
		if stamp, err := routing.ParseRouteHeader(h.Value); err == nil {
			placed.Kind, placed.Epoch = stamp.Kind, stamp.Epoch
		}
	}
	if found.Fenced = move.Stale(t, placed); found.Fenced {
		return found, true
	}
	if since.IsZero() || rec.Timestamp.Before(since.Add(staleGrace)) {
		return found, false
	}
	return found, route.Topic != "" || !slices.Contains(route.Partitions, rec.Partition)
}

func hasHeader(rec *kgo.Record, name string) bool {
	return slices.ContainsFunc(rec.Headers, func(h kgo.RecordHeader) bool { return h.Key == name })
}

// judgeStale opens and ends stale_records of topics that were looked at, or
// whose quarantine was.
func (e *engine) judgeStale(s *Snapshot) {
	if e.table == nil || s.Sweep == nil && len(s.Stale) == 0 {
		return
	}
	for i := range s.Stale {
		e.looks[s.Stale[i].Topic] = s.Stale[i]
	}
	for _, name := range e.table.TopicNames() {
		look, looked := e.looks[name]
		quarantined, counted := e.quarantined[name]
		if looked || counted {
			e.settle(s.At, name, e.staleFinding(name, look, quarantined), lag.AlertStaleRecords)
		}
	}
}

func (e *engine) staleFinding(topic string, look StaleLook, quarantined int64) []finding {
	if len(look.Found) == 0 && quarantined == 0 {
		return nil
	}
	f := finding{Alert: lag.AlertStaleRecords, Topic: topic, Command: []string{"tenantlane", "stale", "list", "--topic", topic}}
	if quarantined > 0 {
		f.Text = fmt.Sprintf("%d stale records of %s, and marks of those that were dealt with, lie in its quarantine.", quarantined, topic)
	}
	if n := len(look.Found); n > 0 {
		first := look.Found[0]
		f.Tenant = first.Tenant
		for _, r := range look.Found {
			f.Partitions = append(f.Partitions, r.Partition)
		}
		f.Partitions = slices.Compact(f.Partitions)
		name, _ := e.shown(string(first.Tenant))
		text := fmt.Sprintf("Of %d records of %s, %d lie where the table does not send them, like offset %d of partition %d, of tenant %s.",
			look.Looked, topic, n, first.Offset, first.Partition, name)
		if f.Text != "" {
			text = f.Text + " " + text
		}
		f.Text = text
	}
	return []finding{f}
}
