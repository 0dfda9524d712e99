package lagwatch_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenantlane/tenantlane/lagwatch"
	"github.com/tenantlane/tenantlane/lagwatch/lag"
	"github.com/tenantlane/tenantlane/lagwatch/notify"
)

// refuser is a webhook that takes nothing.
func refuser(t *testing.T) notify.Target {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusBadRequest) }))
	transport := &http.Transport{}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		s.Close()
	})
	w, err := notify.NewWebhook(notify.WebhookConfig{Name: "refuser", URL: notify.Secret(s.URL), Transport: transport})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestTargetThatRefusesIsToldToTheOthers(t *testing.T) {
	t.Parallel()
	c := hotCluster(t)
	target, got := receiver(t)
	stop := running(t, c.watcher(func(cfg *lagwatch.Config) {
		cfg.Rule, cfg.Targets = fast(), []notify.Target{target, refuser(t)}
	}))
	a := next(t, got, lag.AlertNotifyFailing)
	if a.Pool != "refuser" || !strings.Contains(a.Summary, "refuser") || a.Severity != "page" {
		t.Fatal(asJSON(t, a))
	}
	stop()
}

// The watchdog goes to those who notice its absence, and only while all is seen.
func TestWatchdogAndHeartbeat(t *testing.T) {
	t.Parallel()
	c := hotCluster(t)
	var beats atomic.Int64
	alerts := make(chan string, 1000)
	mux := http.NewServeMux()
	mux.HandleFunc("/beat", func(http.ResponseWriter, *http.Request) { beats.Add(1) })
	mux.HandleFunc("/api/v2/alerts", func(_ http.ResponseWriter, r *http.Request) {
		body := new(strings.Builder)
		if _, err := readAll(body, r); err != nil {
			t.Error(err)
		}
		alerts <- body.String()
	})
	s := httptest.NewServer(mux)
	transport := &http.Transport{}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		s.Close()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})
	am, err := notify.NewAlertmanager(notify.AlertmanagerConfig{URLs: []notify.Secret{notify.Secret(s.URL)}, Transport: transport})
	if err != nil {
		t.Fatal(err)
	}
	hook, got := receiver(t)
	w := c.watcher(func(cfg *lagwatch.Config) {
		cfg.Rule, cfg.Targets, cfg.HeartbeatURL = fast(), []notify.Target{am[0], hook}, notify.Secret(s.URL+"/beat")
	})
	begun := time.Now()
	stop := running(t, w)
	for told := ""; !strings.Contains(told, `"watchdog"`); {
		told = <-alerts
	}
	next(t, got, lag.AlertHot)
	stop()
	took := time.Since(begun) // more than a minute on a machine that does much else
	if n := beats.Load(); n < 1 || n > 1+int64(took/time.Minute) {
		t.Errorf("%d heartbeats in %v, want one a minute", n, took)
	}
	for len(got) > 0 {
		if a := <-got; a.Name == lag.AlertWatchdog {
			t.Error("the webhook is told of the watchdog")
		}
	}
	findings, err := w.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		if f.OK != (f.Name != "state") {
			t.Errorf("%+v", f)
		}
	}
}

func TestCheckFindsWhatIsMissing(t *testing.T) {
	t.Parallel()
	findings, err := newCluster(t, 1).watcher(nil).Check(t.Context())
	if err != nil || len(findings) != 4 {
		t.Fatal(findings, err)
	}
	for _, f := range findings {
		if f.OK || f.Detail == "" {
			t.Errorf("%+v", f)
		}
	}
}

func TestTestPageReachesEveryTarget(t *testing.T) {
	t.Parallel()
	target, got := receiver(t)
	w := newCluster(t, 1).watcher(func(cfg *lagwatch.Config) { cfg.Targets = []notify.Target{target, refuser(t)} })
	err := w.TestPage(t.Context())
	if err == nil || !strings.Contains(err.Error(), "refuser") {
		t.Error(err)
	}
	if a := next(t, got, "test_page"); a.Status != "firing" {
		t.Error(asJSON(t, a))
	}
	if a := next(t, got, "test_page"); a.Status != "resolved" {
		t.Error(asJSON(t, a))
	}
}
