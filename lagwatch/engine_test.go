package lagwatch

import (
	"testing"
	"time"

	"github.com/tenantlane/tenantlane/lagwatch/lag"
)

// virtual drives an engine by snapshots in virtual time: one group, one topic,
// one partition.
type virtual struct {
	t      *testing.T
	engine *engine
	at     time.Time
}

func newVirtual(t *testing.T) *virtual {
	t.Helper()
	cfg := Config{}.withDefaults()
	return &virtual{t, newEngine(&cfg), time.Unix(1_700_000_000, 0)}
}

func (v *virtual) round(edit func(*CommitsSnapshot, *TopicSnapshot)) *Evaluation {
	v.t.Helper()
	v.at = v.at.Add(10 * time.Second)
	c := CommitsSnapshot{Topic: "orders", Commits: []int64{11}, Visible: []int64{Unread}}
	topic := TopicSnapshot{Topic: "orders", Known: true, Start: []int64{0}, End: []int64{18}, Stable: []int64{18}}
	edit(&c, &topic)
	s := &Snapshot{
		At: v.at, Groups: []GroupSnapshot{{Group: "billing", Known: true, CommitsKnown: true, Members: 1, Topics: []CommitsSnapshot{c}}},
		Topics: []TopicSnapshot{topic},
	}
	v.engine.observe(s)
	return v.engine.evaluate(s)
}

// A group that reads committed records and has caught up with a transactional
// topic commits 11 of 18 for ever.
func TestCaughtUpTransactionalGroupNeverPages(t *testing.T) {
	t.Parallel()
	v := newVirtual(t)
	probed := Unread
	for range 6 * 60 * 24 {
		e := v.round(func(c *CommitsSnapshot, _ *TopicSnapshot) { c.Visible = []int64{probed} })
		if len(e.alerts) != 0 {
			t.Fatalf("%+v", e.alerts)
		}
		if probes := v.engine.probes(1); len(probes) > 0 {
			if probes[0].from != 11 {
				t.Fatalf("%+v", probes)
			}
			probed = 18 // nothing visible up to the stable offset
		}
	}
	if probed == Unread {
		t.Fatal("never probed")
	}
}

func TestStuckTransactionalGroupPages(t *testing.T) {
	t.Parallel()
	v := newVirtual(t)
	for range 6 * 15 {
		e := v.round(func(c *CommitsSnapshot, _ *TopicSnapshot) { c.Visible = []int64{14} })
		for _, a := range e.alerts {
			if a.Name == lag.AlertStuck {
				if a.Values["lag"] != 4 {
					t.Fatalf("%+v", a)
				}
				return
			}
		}
	}
	t.Fatal("a record that was visible for 15 minutes was not missed")
}

// A parked tenant neither pages everyone nor hides a whale that overflows.
func TestRunnableOffsetIsWhatCounts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		runnable int64
		lag      float64
	}{"parked: all but its lane is done": {100_000, 0}, "a lane is behind": {20_000, 80_000}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newVirtual(t)
			var e *Evaluation
			for range 6 * 30 {
				e = v.round(func(s *CommitsSnapshot, topic *TopicSnapshot) {
					s.Commits, s.Runnable = []int64{10}, []int64{c.runnable}
					if c.lag > 0 {
						s.Lanes = []int64{c.runnable}
					}
					topic.End, topic.Stable = []int64{100_000}, []int64{100_000}
				})
			}
			if got := e.Groups[0].Partitions[0].Lag; float64(got) != c.lag {
				t.Fatalf("lag %d", got)
			}
			names := map[string]bool{}
			for _, a := range e.alerts {
				names[a.Name] = true
			}
			if names[lag.AlertStuck] != (c.lag > 0) || names[lag.AlertLaneBehind] != (c.lag > 0) {
				t.Fatalf("%+v", e.alerts)
			}
		})
	}
}

func TestDurationsReadWell(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0s", 1400 * time.Millisecond: "1.4s", 90 * time.Second: "1m30s", 10 * time.Minute: "10m", time.Hour: "1h",
		90 * time.Minute: "1h30m", 100*time.Hour + 5*time.Second: "100h",
	} {
		if got := short(d); got != want {
			t.Errorf("%v reads %q, want %q", d, got, want)
		}
	}
}
