package lagwatch

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/tenantlane/tenantlane/internal/sample"
	"github.com/tenantlane/tenantlane/internal/sketch"
)

// inflow is whose records arrive in a topic: a sketch of this window and one of
// the window before.
type inflow struct {
	this, last  *sketch.Sketch
	begun, from time.Time       // of this window, and of what both hold
	ends        map[int32]int64 // up to which arrivals were looked at
}

const (
	inflowRounds = 6 // from one look to the next: a minute by default
	inflowWindow = 5 * time.Minute
	inflowLooks  = 32 // fetches each time, for all topics
	inflowShown  = 8  // tenants
)

func newInflow(now time.Time) *inflow {
	return &inflow{this: sketch.New(sketchSize), last: sketch.New(sketchSize), begun: now, from: now, ends: map[int32]int64{}}
}

// turn begins a new window when this one is over.
func (in *inflow) turn(now time.Time) {
	if now.Sub(in.begun) < inflowWindow {
		return
	}
	in.this, in.last = in.last, in.this
	in.this.Reset()
	in.from, in.begun = in.begun, now
}

// both is the two windows together.
func (in *inflow) both() *sketch.Sketch {
	s := sketch.New(sketchSize)
	s.Merge(in.last)
	s.Merge(in.this)
	return s
}

// top is the tenants of which most records arrive.
func (in *inflow) top(e *engine, now time.Time) (out []TenantShare) {
	s := in.both()
	for _, entry := range s.Top(inflowShown) {
		count := float64(entry.Count - entry.Err)
		share := TenantShare{
			Share: rounded(count / float64(max(s.Total(), 1))), PerSecond: rounded(perSecond(count/weightScale, now.Sub(in.from))),
		}
		if share.Share < 0.01 {
			break
		}
		share.Tenant, share.TenantHex = e.shown(entry.Key)
		out = append(out, share)
	}
	return out
}

// arrival is a look at what arrived in a partition.
type arrival struct {
	topic     string
	partition int32
	from, to  int64
	weight    float64 // records that the look stands for
}

// arrivals chooses where to look: in each topic by chance, in proportion to
// what arrived in its partitions, so that every record is as likely as another.
func (e *engine) arrivals(now time.Time) (out []arrival) {
	grown := map[string][]arrival{}
	total := map[string]float64{}
	all := 0.0
	for topic, logs := range e.logs {
		in := e.inflow[topic]
		if in == nil {
			in = newInflow(now)
			e.inflow[topic] = in
		}
		in.turn(now)
		for p := range logs.logs {
			end, known := logs.logs[p].End()
			if !known {
				continue
			}
			from, seen := in.ends[int32(p)]
			in.ends[int32(p)] = end
			if seen && end > from {
				grown[topic] = append(grown[topic], arrival{topic: topic, partition: int32(p), from: from, to: end})
				total[topic] += float64(end - from)
			}
		}
		all += total[topic]
	}
	for topic, parts := range grown {
		n := max(int(inflowLooks*total[topic]/all), 1)
		for range n {
			a := pick(parts, total[topic])
			a.weight = total[topic] / float64(n)
			out = append(out, a)
		}
	}
	rand.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out[:min(len(out), 2*inflowLooks)] // of very many topics not all each time
}

// pick draws a partition in proportion to its growth.
func pick(parts []arrival, total float64) arrival {
	x := rand.Float64() * total
	for _, a := range parts {
		if x -= float64(a.to - a.from); x < 0 {
			return a
		}
	}
	return parts[len(parts)-1]
}

// followInflow looks every few rounds at what arrived since the last time. What
// cannot be read is left out: the names of top tenants are for people, and
// nothing is decided by them.
func (w *Watcher) followInflow(ctx context.Context, s *sampler) {
	now := w.Last().At
	if now.Sub(w.inflowAt) < inflowRounds*w.cfg.Rule.Interval {
		return
	}
	w.inflowAt = now
	looks := w.engine.arrivals(now)
	if len(looks) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, attributeTime)
	defer cancel()
	reader, err := sample.NewReader(s.client, sample.Config{Places: 1})
	if err != nil {
		w.log.Error("cannot look at what arrives", zap.Error(err))
		return
	}
	found := make([][][]byte, len(looks))
	var g errgroup.Group
	g.SetLimit(4)
	for i, a := range looks {
		l := w.engine.layout(a.topic)
		g.Go(func() error {
			_, err := reader.Random(ctx, a.topic, a.partition, a.from, a.to, func(rec *kgo.Record) {
				if tenant, ok := l.tenantOf(rec); ok {
					found[i] = append(found[i], tenant)
				}
			})
			if err != nil {
				w.log.Debug("cannot see whose records arrive", zap.String("topic", a.topic), zap.Int32("partition", a.partition), zap.Error(err))
			}
			return nil
		})
	}
	_ = g.Wait() // the functions return nil
	for i, a := range looks {
		for _, tenant := range found[i] {
			w.engine.inflow[a.topic].this.Add(tenant, uint64(max(a.weight*weightScale/float64(len(found[i])), 1)))
		}
	}
}
