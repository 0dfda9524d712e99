package lagwatch_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tenantlane/tenantlane/lagwatch"
	"github.com/tenantlane/tenantlane/lagwatch/lag"
	"github.com/tenantlane/tenantlane/lagwatch/notify"
)

// Files of the repository that speak of this package's alerts and metrics.
const (
	rulesFile = "../deploy/prometheus/tenantlane.rules.yml"
	runbooks  = "../docs/runbooks"
)

func TestEveryAlertHasARunbook(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		lag.AlertHot, lag.AlertStuck, lag.AlertSlow, lag.AlertBehind, lag.AlertLossRisk, lag.AlertRewind, lag.AlertReset, lag.AlertLost,
		lag.AlertNoCommit, lag.AlertGone, lag.AlertTxnHanging, lag.AlertLaneBehind, lag.AlertDominates, lag.AlertSkew,
		lag.AlertRebalanceStuck, lag.AlertIdleMembers, lag.AlertBlind, lag.AlertNotifyFailing, lag.AlertWatchdog,
		lag.AlertPlacementStale, lag.AlertStaleRecords, lag.AlertPartitionUnused, lag.AlertUnread, lag.AlertTableMismatch, lag.AlertLaneParked,
	} {
		text, err := os.ReadFile(filepath.Join(runbooks, name+".md"))
		if err != nil {
			t.Error(err)
			continue
		}
		for _, part := range []string{"# " + name + ":", "**Severity:**", "## Impact", "## Look", "## Do", "## When it ends"} {
			if !strings.Contains(string(text), part) {
				t.Errorf("the runbook of %s lacks %q", name, part)
			}
		}
	}
	if !strings.HasSuffix(lagwatch.DefaultRunbookURL, "/docs/runbooks/") {
		t.Errorf("runbooks are not where the pages link to: %s", lagwatch.DefaultRunbookURL)
	}
}

// The rules speak of metrics that exist, and link to runbooks that exist.
func TestRulesNameWhatExists(t *testing.T) {
	t.Parallel()
	rules, err := os.ReadFile(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`docs/runbooks/(\w+\.md)`).FindAllStringSubmatch(string(rules), -1) {
		if _, err := os.Stat(filepath.Join(runbooks, m[1])); err != nil {
			t.Error(err)
		}
	}
	known := metricNames(t)
	for _, m := range regexp.MustCompile(`\btenantlane_lagwatch_\w+`).FindAllString(string(rules), -1) {
		if !known[m] {
			t.Errorf("the rules use %s, which no code exports", m)
		}
	}
}

// metricNames are the names that a running watcher exports.
func metricNames(t *testing.T) map[string]bool {
	t.Helper()
	c := hotCluster(t)
	target, got := receiver(t)
	reg := prometheus.NewPedanticRegistry()
	file := filepath.Join(t.TempDir(), "state")
	stop := running(t, c.watcher(func(cfg *lagwatch.Config) {
		cfg.Rule, cfg.Targets, cfg.Registerer, cfg.StateFile = fast(), []notify.Target{target}, reg, file
	}))
	next(t, got, lag.AlertHot)
	stop()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, f := range families {
		out[f.GetName()] = true
	}
	return out
}

// promtool and amtool check the files and run the rules' unit tests.
func TestToolsAcceptTheFiles(t *testing.T) {
	t.Parallel()
	for tool, args := range map[string][]string{
		"promtool": {"test", "rules", "tenantlane.rules.test.yml"},
		"amtool":   {"check-config", "../alertmanager/alertmanager.yml"},
	} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			path, err := exec.LookPath(tool)
			if err != nil {
				if os.Getenv("TENANTLANE_REQUIRE_PROMETHEUS") == "1" {
					t.Fatalf("TENANTLANE_REQUIRE_PROMETHEUS=1, and there is no %s", tool)
				}
				t.Skipf("there is no %s; install the Debian packages prometheus and prometheus-alertmanager", tool)
			}
			cmd := exec.CommandContext(t.Context(), path, args...)
			cmd.Dir = filepath.Dir(rulesFile)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		})
	}
}
