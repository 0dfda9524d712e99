package lagwatch_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tenantlane/tenantlane/lagwatch"
	"github.com/tenantlane/tenantlane/lagwatch/lag"
	"github.com/tenantlane/tenantlane/lagwatch/notify"
)

// program starts a real server and waits until it is ready.
func program(t *testing.T, name, ready string, args ...string) {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		if os.Getenv("TENANTLANE_REQUIRE_PROMETHEUS") == "1" {
			t.Fatalf("TENANTLANE_REQUIRE_PROMETHEUS=1, and there is no %s", name)
		}
		t.Skipf("there is no %s; install the Debian packages prometheus and prometheus-alertmanager", name)
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), path, args...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, t.TempDir()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // by the signal
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("%s:\n%s", name, text)
		}
		_ = log.Close()
	})
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		resp, err := http.Get(ready) //nolint:noctx // polled within a deadline
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case <-deadline:
			t.Fatalf("%s is not ready", name)
		case <-tick.C:
		}
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// received is an alert as Alertmanager hands it on.
type received struct {
	Status              string
	Labels, Annotations map[string]string
}

// alertmanager starts a real one that hands everything to the returned channel.
func alertmanager(t *testing.T) (address string, got <-chan received) {
	t.Helper()
	alerts := make(chan received, 1000)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var body struct{ Alerts []received }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		for _, a := range body.Alerts {
			alerts <- a
		}
	}))
	t.Cleanup(hook.Close)
	config := filepath.Join(t.TempDir(), "alertmanager.yml")
	text := fmt.Sprintf("route: {receiver: all, group_by: ['...'], group_wait: 0s, group_interval: 1s, repeat_interval: 1h}\n"+
		"receivers: [{name: all, webhook_configs: [{url: '%s', send_resolved: true}]}]\n", hook.URL)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	address = freeAddress(t)
	program(t, "prometheus-alertmanager", "http://"+address+"/-/ready",
		"--config.file="+config, "--storage.path="+t.TempDir(), "--web.listen-address="+address, "--cluster.listen-address=")
	return address, alerts
}

func await(t *testing.T, got <-chan received, name, status string) received {
	t.Helper()
	deadline := time.After(40 * time.Second)
	for {
		select {
		case a := <-got:
			if a.Labels["alertname"] == name && a.Status == status {
				return a
			}
		case <-deadline:
			t.Fatalf("no %s %s", status, name)
		}
	}
}

// lagwatch → a real Alertmanager → a receiver.
func TestAlertTravelsThroughAlertmanager(t *testing.T) {
	address, got := alertmanager(t)
	c := hotCluster(t)
	targets, err := notify.NewAlertmanager(notify.AlertmanagerConfig{URLs: []notify.Secret{notify.Secret("http://" + address)}})
	if err != nil {
		t.Fatal(err)
	}
	stop := running(t, c.watcher(func(cfg *lagwatch.Config) { cfg.Rule, cfg.Targets = fast(), targets }))
	a := await(t, got, lag.AlertHot, "firing")
	if a.Labels["group"] != "billing" || a.Annotations["tenant"] != "importer" || a.Annotations["partitions"] != "2" || len(a.Labels) != 5 {
		t.Fatalf("%+v", a)
	}
	c.commit("billing", 100, 100, 5100, 100)
	await(t, got, lag.AlertHot, "resolved")
	stop()
	closeIdle()
}

// lagwatch's metrics → a real Prometheus → the deployed rules → Alertmanager.
func TestAlertTravelsThroughPrometheus(t *testing.T) {
	address, got := alertmanager(t)
	c := hotCluster(t)
	reg := prometheus.NewPedanticRegistry()
	target, paged := receiver(t)
	w := c.watcher(func(cfg *lagwatch.Config) {
		cfg.Rule, cfg.Registerer, cfg.Targets = fast(), reg, []notify.Target{target}
	})
	stop := running(t, w)
	next(t, paged, lag.AlertHot)
	metrics := httptest.NewServer(w.Handler())
	t.Cleanup(metrics.Close)
	rules, err := filepath.Abs(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "prometheus.yml")
	text := fmt.Sprintf("global: {scrape_interval: 200ms, scrape_timeout: 200ms, evaluation_interval: 200ms}\nrule_files: ['%s']\n"+
		"scrape_configs: [{job_name: lagwatch, static_configs: [{targets: ['%s']}]}]\n"+
		"alerting: {alertmanagers: [{static_configs: [{targets: ['%s']}]}]}\n", rules, strings.TrimPrefix(metrics.URL, "http://"), address)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	listen := freeAddress(t)
	program(t, "prometheus", "http://"+listen+"/-/ready",
		"--config.file="+config, "--storage.tsdb.path="+t.TempDir(), "--web.listen-address="+listen)
	a := await(t, got, "LagwatchPage", "firing")
	if a.Labels["alert"] != lag.AlertHot || a.Labels["group"] != "billing" || !strings.HasSuffix(a.Annotations["runbook_url"], "/partition_hot.md") {
		t.Fatalf("%+v", a)
	}
	stop()
	closeIdle()
}

func closeIdle() { http.DefaultTransport.(*http.Transport).CloseIdleConnections() }
