package lagwatch_test

import (
	"bytes"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/tenantlane/tenantlane/lagwatch"
	"github.com/tenantlane/tenantlane/lagwatch/lag"
	"github.com/tenantlane/tenantlane/lagwatch/notify"
)

// Two replicas watch: one page, one end. The one that sends may be either.
func TestTwoReplicasSendOnePageAndOneEnd(t *testing.T) {
	t.Parallel()
	c := hotCluster(t)
	if _, err := c.admin.CreateTopic(t.Context(), 1, 1, nil, "election"); err != nil {
		t.Fatal(err)
	}
	target, got := receiver(t)
	var seen [2]chan *lagwatch.Evaluation
	var watchers [2]*lagwatch.Watcher
	var stops [2]func()
	for i := range seen {
		seen[i] = make(chan *lagwatch.Evaluation, 10_000)
		watchers[i] = c.watcher(func(cfg *lagwatch.Config) {
			cfg.Rule = fast()
			cfg.Rule.CriticalRatio = 0 // as loud in every round
			cfg.Targets = []notify.Target{target}
			cfg.Election = &lagwatch.Election{Topic: "election", Group: "lagwatch"}
			cfg.OnEvaluation = func(e *lagwatch.Evaluation) { seen[i] <- e }
		})
		stops[i] = running(t, watchers[i])
	}
	until := func(fires bool) {
		t.Helper()
		for i := range seen {
			for e := range seen[i] {
				if hot := pool(t, e, "billing", lag.SharedPool); alertIn(hot, lag.AlertHot) == fires {
					break
				}
			}
		}
	}
	until(true)
	first := next(t, got, lag.AlertHot)
	c.commit("billing", 100, 100, 5100, 100)
	until(false)
	last := next(t, got, lag.AlertHot)
	for i := range seen { // rounds from now on in which a second one would tell
		for len(seen[i]) > 0 {
			<-seen[i]
		}
		for range 5 {
			<-seen[i]
		}
		if err := watchers[i].Settle(t.Context()); err != nil { // and what they made due is delivered
			t.Fatal(err)
		}
	}
	if first.Status != "firing" || last.Status != "resolved" {
		t.Fatalf("%s then %s", first.Status, last.Status)
	}
	for len(got) > 0 {
		if a := <-got; a.Name == lag.AlertHot {
			t.Fatalf("told more than once: %s", asJSON(t, a))
		}
	}
	// Only now: one that takes over repeats what it cannot know to be told.
	for _, stop := range stops {
		stop()
	}
}

func alertIn(p *lagwatch.PoolEvaluation, name string) bool {
	for _, f := range p.Firing {
		if f.Alert == name {
			return true
		}
	}
	return false
}

// The replica that sends is stopped a moment after it paged: the other one takes
// over, knows that, and pages nobody again; the end is told once.
func TestReplicaThatTakesOverRepeatsNothing(t *testing.T) {
	t.Parallel()
	c := hotCluster(t)
	if _, err := c.admin.CreateTopic(t.Context(), 1, 1, nil, "election"); err != nil {
		t.Fatal(err)
	}
	target, got := receiver(t)
	leads := make(chan int, 100)
	seen := make(chan *lagwatch.Evaluation, 10_000)
	var watchers [2]*lagwatch.Watcher
	var stops [2]func()
	start := func(i int) {
		watchers[i] = c.watcher(func(cfg *lagwatch.Config) {
			cfg.Rule = fast()
			cfg.Rule.CriticalRatio = 0
			cfg.Targets = []notify.Target{target}
			cfg.Election = &lagwatch.Election{Topic: "election", Group: "lagwatch"}
			cfg.OnEvaluation = func(e *lagwatch.Evaluation) {
				if i == 1 {
					seen <- e
				}
			}
			cfg.Logger = zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zapcore.EncoderConfig{}), zapcore.AddSync(leader{i, leads}), zap.InfoLevel))
		})
		stops[i] = running(t, watchers[i])
	}
	start(0)
	if i := <-leads; i != 0 {
		t.Fatal(i)
	}
	start(1)
	page := next(t, got, lag.AlertHot)
	for e := range seen { // the other one sees it too
		if alertIn(pool(t, e, "billing", lag.SharedPool), lag.AlertHot) {
			break
		}
	}
	stops[0]()
	if i := <-leads; i != 1 {
		t.Fatal(i)
	}
	for len(seen) > 0 {
		<-seen
	}
	for range 5 {
		<-seen
	}
	if err := watchers[1].Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.commit("billing", 100, 100, 5100, 100)
	end := next(t, got, lag.AlertHot)
	if end.Status != "resolved" || end.DedupKey != page.DedupKey {
		t.Fatalf("told again: %s", asJSON(t, end))
	}
	stops[1]()
}

// leader hears from a replica's log that it sends from now on.
type leader struct {
	i     int
	leads chan<- int
}

func (l leader) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte(`"this_one_sends":true`)) {
		l.leads <- l.i
	}
	return len(line), nil
}
