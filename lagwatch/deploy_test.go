package lagwatch_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

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
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	am, err := notify.NewAlertmanager(notify.AlertmanagerConfig{URLs: []notify.Secret{notify.Secret(server.URL)}, Transport: transport})
	if err != nil {
		t.Fatal(err)
	}
	am = append(am, target)
	reg := prometheus.NewPedanticRegistry()
	file := filepath.Join(t.TempDir(), "state")
	stop := running(t, c.watcher(func(cfg *lagwatch.Config) {
		cfg.Rule, cfg.Targets, cfg.Registerer, cfg.StateFile = fast(), am, reg, file
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
	for name, words := range map[string][]string{
		"rules":        {"promtool", "test", "rules", "tenantlane.rules.test.yml"},
		"prometheus":   {"promtool", "check", "config", "prometheus.yml"},
		"alertmanager": {"amtool", "check-config", "../alertmanager/alertmanager.yml"},
		"pages of rules": {
			"amtool", "config", "routes", "test", "--config.file=../alertmanager/alertmanager.yml",
			"--verify.receivers=pager", "alertname=WorkerLostRecords", "severity=page",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, err := exec.LookPath(words[0])
			if err != nil {
				if os.Getenv("TENANTLANE_REQUIRE_PROMETHEUS") == "1" {
					t.Fatalf("TENANTLANE_REQUIRE_PROMETHEUS=1, and there is no %s", words[0])
				}
				t.Skipf("there is no %s; install the Debian packages prometheus and prometheus-alertmanager", words[0])
			}
			cmd := exec.CommandContext(t.Context(), path, words[1:]...)
			cmd.Dir = filepath.Dir(rulesFile)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		})
	}
}

// The programs run with the deployed files as they are: Prometheus loads the
// rules and knows its Alertmanager, and Alertmanager takes lagwatch's pages to
// the pager and its watchdog to the dead man's switch.
func TestDeployedFilesRun(t *testing.T) {
	absolute := func(file string) string {
		t.Helper()
		path, err := filepath.Abs(file)
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	get := func(url string) string {
		t.Helper()
		resp, err := http.Get(url) //nolint:noctx // a local server that is ready
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	listen, am := freeAddress(t), freeAddress(t)
	program(t, "prometheus", "http://"+listen+"/-/ready",
		"--config.file="+absolute("../deploy/prometheus/prometheus.yml"), "--storage.tsdb.path="+t.TempDir(), "--web.listen-address="+listen)
	rules := get("http://" + listen + "/api/v1/rules")
	for _, group := range []string{"lagwatch-itself", "lagwatch-alerts", "queue-time", "LagwatchDown"} {
		if !strings.Contains(rules, group) {
			t.Errorf("Prometheus did not load %s", group)
		}
	}
	program(t, "prometheus-alertmanager", "http://"+am+"/-/ready", "--config.file="+absolute("../deploy/alertmanager/alertmanager.yml"),
		"--storage.path="+t.TempDir(), "--web.listen-address="+am, "--cluster.listen-address=")
	targets, err := notify.NewAlertmanager(notify.AlertmanagerConfig{URLs: []notify.Secret{notify.Secret("http://" + am)}})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{lag.AlertHot: "pager", lag.AlertWatchdog: "dead-mans-switch", lag.AlertStaleRecords: "tickets"}
	var alerts []notify.Alert
	for name := range want {
		alerts = append(alerts, notify.Alert{Name: name, Cluster: "c", Severity: "page", Since: time.Now(), Summary: "x"})
	}
	if err := targets[0].Send(t.Context(), alerts); err != nil {
		t.Fatal(err)
	}
	var stored []struct {
		Labels    map[string]string
		Receivers []struct{ Name string }
	}
	if err := json.Unmarshal([]byte(get("http://"+am+"/api/v2/alerts")), &stored); err != nil || len(stored) != len(want) {
		t.Fatalf("%v: %+v", err, stored)
	}
	for _, a := range stored {
		if len(a.Receivers) != 1 || a.Receivers[0].Name != want[a.Labels["alertname"]] {
			t.Errorf("%s goes to %+v", a.Labels["alertname"], a.Receivers)
		}
	}
	closeIdle()
}
