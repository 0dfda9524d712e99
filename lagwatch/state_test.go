package lagwatch_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantlane/tenantlane/lagwatch"
	"github.com/tenantlane/tenantlane/lagwatch/lag"
	"github.com/tenantlane/tenantlane/lagwatch/notify"
)

func TestRestartNeitherRepeatsAPageNorLosesItsEnd(t *testing.T) {
	t.Parallel()
	c := hotCluster(t)
	target, got := receiver(t)
	file := filepath.Join(t.TempDir(), "state.json")
	start := func() (stop func()) {
		return running(t, c.watcher(func(cfg *lagwatch.Config) {
			cfg.Rule, cfg.Targets, cfg.StateFile = fast(), []notify.Target{target}, file
		}))
	}
	stop := start()
	first := next(t, got, lag.AlertHot)
	stop()
	stop = start()
	stop() // a watcher that comes and goes says nothing
	stop = start()
	c.commit("billing", 100, 100, 5100, 100)
	for {
		a := next(t, got, lag.AlertHot)
		if a.DedupKey != first.DedupKey {
			t.Fatal(asJSON(t, a))
		}
		if a.Status == "resolved" {
			break
		}
		if a.Severity == first.Severity {
			t.Fatalf("paged again: %s", asJSON(t, a))
		}
		first = a
	}
	stop()
}

// What a restart finds nobody can read: what was open stays open.
func TestRestartIntoBlindnessResolvesNothing(t *testing.T) {
	t.Parallel()
	c := hotCluster(t)
	target, got := receiver(t)
	file := filepath.Join(t.TempDir(), "state.json")
	edit := func(cfg *lagwatch.Config) {
		cfg.Rule, cfg.Targets, cfg.StateFile, cfg.SampleTimeout = fast(), []notify.Target{target}, file, 600*time.Millisecond
	}
	stop := running(t, c.watcher(edit))
	next(t, got, lag.AlertHot)
	stop()
	c.broker.Close()
	w := c.watcher(edit)
	stop = running(t, w)
	next(t, got, lag.AlertBlind)
	requireNoHealth(t, w.Last())
	stop()
	for len(got) > 0 {
		if a := <-got; a.Status == "resolved" && a.Name == lag.AlertHot {
			t.Fatal(asJSON(t, a))
		}
	}
}

func TestOnceUsesTheStateFilesPast(t *testing.T) {
	t.Parallel()
	c := hotCluster(t)
	target, got := receiver(t)
	file := filepath.Join(t.TempDir(), "state.json")
	stop := running(t, c.watcher(func(cfg *lagwatch.Config) {
		cfg.Rule, cfg.Targets, cfg.StateFile = fast(), []notify.Target{target}, file
	}))
	next(t, got, lag.AlertHot)
	stop()
	e := c.once(func(cfg *lagwatch.Config) { cfg.Rule, cfg.StateFile = fast(), file })
	f := pool(t, e, "billing", lag.SharedPool).Firing
	if len(e.Skipped) != 0 || len(f) == 0 || f[0].Tenant != "importer" || time.Since(f[0].Since) > time.Minute {
		t.Fatal(asJSON(t, e))
	}
}

// A state that cannot be written or read is said, and does not stop a page.
func TestPagingGoesOnWithoutAState(t *testing.T) {
	t.Parallel()
	c := hotCluster(t)
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken.json")
	if err := os.WriteFile(broken, []byte(`{"version":1,"pairs":`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{broken, filepath.Join(broken, "below", "a", "file")} {
		target, got := receiver(t)
		seen := make(chan *lagwatch.Evaluation, 1000)
		stop := running(t, c.watcher(func(cfg *lagwatch.Config) {
			cfg.Rule, cfg.Targets, cfg.StateFile = fast(), []notify.Target{target}, file
			cfg.OnEvaluation = func(e *lagwatch.Evaluation) { seen <- e }
		}))
		next(t, got, lag.AlertHot)
		for file != broken {
			if e := <-seen; e.StateError != "" {
				break
			}
		}
		stop()
	}
	if data, err := os.ReadFile(broken); err != nil || !json.Valid(data) {
		t.Fatalf("not replaced by a good one: %v", err)
	}
}

func TestReplayGivesTheLiveVerdicts(t *testing.T) {
	t.Parallel()
	c := hotCluster(t)
	target, got := receiver(t)
	var recording bytes.Buffer
	var live []string
	stop := running(t, c.watcher(func(cfg *lagwatch.Config) {
		cfg.Rule, cfg.Targets, cfg.Record = fast(), []notify.Target{target}, &recording
		cfg.OnEvaluation = func(e *lagwatch.Evaluation) { live = append(live, asJSON(t, e)) }
	}))
	next(t, got, lag.AlertHot)
	c.commit("billing", 100, 100, 5100, 100)
	for status := "firing"; status == "firing"; {
		status = next(t, got, lag.AlertHot).Status
	}
	stop()
	var replayed []string
	cut := append(slices.Clone(recording.Bytes()), `{"snapshot":{"at":`...) // a crash in the middle of a line
	err := lagwatch.Replay(bytes.NewReader(cut), lagwatch.Config{Rule: fast()}, func(e *lagwatch.Evaluation) error {
		replayed = append(replayed, asJSON(t, e))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	n := min(len(live), len(replayed)) // the last round may have been cut short by the stop
	if n == 0 || len(replayed)-n > 1 {
		t.Fatalf("%d live, %d replayed", len(live), len(replayed))
	}
	if diff := cmp.Diff(live[:n], replayed[:n]); diff != "" {
		t.Fatalf("(-live +replayed):\n%s", diff)
	}
}

func TestReplayNumbersABadLine(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"{\"snapshot\":{}}\nnonsense\n", "{\"snapshot\":{}}\n{}\n"} {
		err := lagwatch.Replay(strings.NewReader(text), lagwatch.Config{}, func(*lagwatch.Evaluation) error { return nil })
		if err == nil || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestExplainShowsEachConditionAndWhy(t *testing.T) {
	t.Parallel()
	c := hotCluster(t)
	w := c.watcher(nil)
	if _, err := w.Once(t.Context()); err != nil {
		t.Fatal(err)
	}
	hot, ok := w.Explain("billing", "orders", 2)
	if !ok || hot.Class != "HOT" || hot.Tenant != "importer" || !slices.Contains(hot.Firing, lag.AlertHot) || !strings.Contains(hot.Verdict, "fires") {
		t.Fatal(asJSON(t, hot))
	}
	cool, ok := w.Explain("billing", "orders", 0)
	if !ok || len(cool.Firing) != 0 || !strings.Contains(cool.Verdict, "not hot") || len(cool.Checks) < 12 {
		t.Fatal(asJSON(t, cool))
	}
	var text strings.Builder
	if err := cool.WriteText(&text); err != nil || !strings.Contains(text.String(), "lag > ratio × baseline") {
		t.Fatal(text.String(), err)
	}
	if _, ok := w.Explain("billing", "orders", 99); ok {
		t.Fatal("explains a partition that does not exist")
	}
}
