package lagwatch

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/tenantlane/tenantlane/lagwatch/notify"
)

// Without a host the listener is seen by this machine alone.
func TestListenerIsLoopbackByDefault(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.InfoLevel)
	w, err := New(Config{KafkaOpts: []kgo.Opt{kgo.SeedBrokers("127.0.0.1:1")}, Listen: ":0", Logger: zap.New(core)})
	if err != nil {
		t.Fatal(err)
	}
	serve, err := w.listen()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	serve(ctx)
	address := logs.FilterMessage("lagwatch serves").All()[0].ContextMap()["address"].(string)
	host, _, err := net.SplitHostPort(address)
	if err != nil || !net.ParseIP(host).IsLoopback() {
		t.Fatalf("serves %s", address)
	}
}

// A heartbeat that is redirected goes nowhere, and counts as not taken.
func TestHeartbeatFollowsNoRedirect(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") }))
	t.Cleanup(elsewhere.Close)
	server := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	t.Cleanup(server.Close)
	core, logs := observer.New(zap.DebugLevel)
	w, err := New(Config{
		KafkaOpts: []kgo.Opt{kgo.SeedBrokers("127.0.0.1:1")}, HeartbeatURL: notify.Secret(server.URL + "/T0KEN"), Logger: zap.New(core),
	})
	if err != nil {
		t.Fatal(err)
	}
	w.heartbeat(t.Context(), &Evaluation{At: time.Now()})
	if logs.FilterMessage("the heartbeat was not taken").Len() != 1 || !w.beatAt.IsZero() {
		t.Fatalf("%+v", logs.All())
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

// Secrets are in no metric, page, log, state or evaluation of a watcher whose
// targets fail in every way.
func TestSecretsAreNowhere(t *testing.T) {
	t.Parallel()
	const secret = "hunter2-T0KEN"
	core, logs := observer.New(zap.DebugLevel)
	reg := prometheus.NewPedanticRegistry()
	dead := notify.Secret("http://127.0.0.1:1/" + secret)
	hook, err := notify.NewWebhook(notify.WebhookConfig{URL: dead, Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	slack, err := notify.NewSlack(notify.SlackConfig{URL: dead})
	if err != nil {
		t.Fatal(err)
	}
	duty, err := notify.NewPagerDuty(notify.PagerDutyConfig{RoutingKey: secret, URL: dead})
	if err != nil {
		t.Fatal(err)
	}
	w, err := New(Config{
		KafkaOpts: []kgo.Opt{kgo.SeedBrokers("127.0.0.1:1")}, Registerer: reg, Logger: zap.New(core), APIToken: secret, HeartbeatURL: dead,
		Targets: []notify.Target{hook, slack, duty}, Backoff: notify.Backoff{Min: time.Millisecond, Max: time.Millisecond},
		StateFile: t.TempDir() + "/state",
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.notifier.Run(ctx) }()
	w.notifier.Publish([]notify.Alert{{Name: "partition_hot", Severity: "page"}})
	for len(w.notifier.Failing()) < 3 {
		<-time.After(time.Millisecond)
	}
	e := &Evaluation{At: time.Now()}
	w.watchSelf(e)
	w.last.Store(e)
	w.heartbeat(t.Context(), e)
	cancel()
	if err = <-done; err != nil {
		t.Fatal(err)
	}
	var all bytes.Buffer
	for _, entry := range logs.All() {
		all.WriteString(entry.Message)
		_ = json.NewEncoder(&all).Encode(entry.ContextMap())
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		all.WriteString(f.String())
	}
	for _, path := range []string{"/", "/metrics", "/-/ready"} {
		rec := httptest.NewRecorder()
		w.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, path, nil))
		all.Write(rec.Body.Bytes())
	}
	for _, v := range []any{e, e.alerts, w.state(time.Now())} {
		if err := json.NewEncoder(&all).Encode(v); err != nil {
			t.Fatal(err)
		}
	}
	if text := all.String(); strings.Contains(text, secret) || !strings.Contains(text, "notify_failing") {
		t.Fatalf("%s", text)
	}
}
