package notify_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/tenantlane/tenantlane/lagwatch/notify"
)

// taken is a server that keeps bodies and answers as told.
type taken struct {
	mu sync.Mutex
	// guards all below
	answers []int // status of the next requests, then 202
	bodies  []string
	paths   []string
	date    time.Time
}

func (s *taken) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	s.paths = append(s.paths, r.URL.Path)
	status := http.StatusAccepted
	if len(s.answers) > 0 {
		status, s.answers = s.answers[0], s.answers[1:]
	}
	if status/100 == 2 {
		s.bodies = append(s.bodies, string(body))
	}
	if !s.date.IsZero() {
		w.Header().Set("Date", s.date.UTC().Format(http.TimeFormat))
	}
	w.WriteHeader(status)
}

func full() notify.Alert {
	a := hot("page")
	a.Since = time.Now().Add(-time.Minute)
	a.Tenant, a.Share, a.Partitions, a.Class = "<!channel> & co", 0.91, []int32{7, 9}, "HOT"
	a.Summary, a.Runbook, a.Owner = "Partition 7 is far behind", "https://example.com/hot.md", "payments"
	a.Commands, a.Values = []string{"tenantlane lagwatch explain g t 7"}, map[string]float64{"lag": 5000}
	return a
}

func TestAlertmanagerGetsIdentityAsLabelsAlone(t *testing.T) {
	t.Parallel()
	s := &taken{date: time.Now().Add(-time.Hour)}
	targets, err := notify.NewAlertmanager(notify.AlertmanagerConfig{
		URLs: []notify.Secret{notify.Secret(serve(t, s.ServeHTTP) + "/"), notify.Secret(serve(t, s.ServeHTTP))},
	})
	if err != nil || len(targets) != 2 || targets[0].Name() == targets[1].Name() {
		t.Fatal(targets, err)
	}
	ended := full()
	ended.ResolvedAt = time.Now()
	for _, target := range targets {
		if err := target.Send(t.Context(), []notify.Alert{full(), ended}); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.bodies) != 2 || s.paths[0] != "/api/v2/alerts" {
		t.Fatal(s.paths)
	}
	var got []struct {
		Labels, Annotations map[string]string
		StartsAt, EndsAt    time.Time
	}
	if err := json.Unmarshal([]byte(s.bodies[0]), &got); err != nil {
		t.Fatal(err)
	}
	if l := got[0].Labels; len(l) != 5 || l["alertname"] != "partition_hot" || l["pool"] != "shared" {
		t.Fatalf("labels %v", l)
	}
	if a := got[0].Annotations; a["tenant"] != "<!channel> & co" || a["partitions"] != "7,9" || a["severity"] != "page" || a["lag"] != "5000" {
		t.Fatalf("annotations %v", a)
	}
	if time.Until(got[0].EndsAt) < 14*time.Minute || time.Until(got[1].EndsAt) > time.Second {
		t.Fatalf("ends at %v and %v", got[0].EndsAt, got[1].EndsAt)
	}
	if skew := targets[0].(*notify.Alertmanager).ClockSkew(); skew > -59*time.Minute {
		t.Fatalf("clock skew %v", skew)
	}
}

func TestPagerDutyTriggersAndResolvesByDedupKey(t *testing.T) {
	t.Parallel()
	s := &taken{}
	p, err := notify.NewPagerDuty(notify.PagerDutyConfig{RoutingKey: "R0UTING", URL: notify.Secret(serve(t, s.ServeHTTP))})
	if err != nil {
		t.Fatal(err)
	}
	long := full()
	long.Summary = strings.Repeat("é", 2000)
	long.Commands = []string{strings.Repeat("x", 600<<10)}
	ended := full()
	ended.ResolvedAt = time.Now()
	if err := p.Send(t.Context(), []notify.Alert{full(), long, ended}); err != nil {
		t.Fatal(err)
	}
	type event struct {
		RoutingKey  string `json:"routing_key"`
		EventAction string `json:"event_action"`
		DedupKey    string `json:"dedup_key"`
		Payload     *struct {
			Summary, Source, Severity string
			CustomDetails             map[string]string `json:"custom_details"`
		}
		Links []struct{ Href string }
	}
	var events []event
	for _, body := range s.bodies {
		var e event
		if err := json.Unmarshal([]byte(body), &e); err != nil || len(body) > 512<<10 {
			t.Fatal(len(body), err)
		}
		events = append(events, e)
	}
	a := full()
	if e := events[0]; e.RoutingKey != "R0UTING" || e.EventAction != "trigger" || e.DedupKey != a.Key() ||
		e.Payload.Severity != "error" || e.Payload.CustomDetails["tenant"] != a.Tenant || e.Links[0].Href != a.Runbook {
		t.Fatalf("%+v", e)
	}
	if sum := events[1].Payload.Summary; len(sum) > 1024 || !utf8.ValidString(sum) || len(sum) < 1000 {
		t.Fatalf("summary of %d bytes", len(sum))
	}
	if e := events[2]; e.EventAction != "resolve" || e.DedupKey != a.Key() || e.Payload != nil {
		t.Fatalf("%+v", e)
	}
	ticket := hot("ticket")
	if p.Wants(&ticket) || !p.Wants(&a) {
		t.Fatal("wants tickets, or not pages")
	}
}

func TestPagerDutyBusyBacksOffForMinutesAndKeepsWhatItTook(t *testing.T) {
	t.Parallel()
	s := &taken{answers: []int{202, 429}}
	p, err := notify.NewPagerDuty(notify.PagerDutyConfig{RoutingKey: "R0UTING", URL: notify.Secret(serve(t, s.ServeHTTP))})
	if err != nil {
		t.Fatal(err)
	}
	stuck := full()
	stuck.Name = "partition_stuck"
	err = p.Send(t.Context(), []notify.Alert{full(), stuck})
	var se *notify.SendError
	if !errors.As(err, &se) || se.Done != 1 || se.RetryAfter < 2*time.Minute || !se.Temporary() || strings.Contains(err.Error(), "R0UTING") {
		t.Fatalf("%+v", err)
	}
}

func TestSlackCannotBeMadeToMention(t *testing.T) {
	t.Parallel()
	s := &taken{answers: []int{200, 404}}
	url := serve(t, s.ServeHTTP)
	slack, err := notify.NewSlack(notify.SlackConfig{URL: notify.Secret(url + "/services/T0KEN")})
	if err != nil {
		t.Fatal(err)
	}
	a := full()
	a.Summary = "Tenant " + a.Tenant + " did it"
	if err = slack.Send(t.Context(), []notify.Alert{a}); err != nil {
		t.Fatal(err)
	}
	var body struct{ Text string }
	if err = json.Unmarshal([]byte(s.bodies[0]), &body); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(body.Text, "<!channel>") || !strings.Contains(body.Text, "&lt;!channel&gt; &amp; co") || !strings.Contains(body.Text, "explain g t 7") {
		t.Fatal(body.Text)
	}
	err = slack.Send(t.Context(), []notify.Alert{a})
	var se *notify.SendError
	if !errors.As(err, &se) || se.Temporary() || strings.Contains(err.Error(), "T0KEN") {
		t.Fatal(err)
	}
}

// Every target: refused, then a smaller payload is taken; busy, then again.
func TestEveryTargetRecovers(t *testing.T) {
	t.Parallel()
	for name, build := range map[string]func(url notify.Secret) (notify.Target, error){
		"webhook": func(u notify.Secret) (notify.Target, error) {
			return notify.NewWebhook(notify.WebhookConfig{URL: u})
		},
		"slack": func(u notify.Secret) (notify.Target, error) { return notify.NewSlack(notify.SlackConfig{URL: u}) },
		"pagerduty": func(u notify.Secret) (notify.Target, error) {
			return notify.NewPagerDuty(notify.PagerDutyConfig{URL: u, RoutingKey: "k"})
		},
		"alertmanager": func(u notify.Secret) (notify.Target, error) {
			all, err := notify.NewAlertmanager(notify.AlertmanagerConfig{URLs: []notify.Secret{u}})
			return all[0], err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &taken{answers: []int{500, 503, 400, 202}}
			target, err := build(notify.Secret(serve(t, s.ServeHTTP)))
			if err != nil {
				t.Fatal(err)
			}
			n, err := notify.New(notify.Config{
				Targets: []notify.Target{target}, Backoff: notify.Backoff{Min: time.Millisecond, Max: time.Millisecond},
			}, nil)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := goRun(ctx, t, n)
			n.Publish([]notify.Alert{full()})
			if err := n.Settle(t.Context()); err != nil {
				t.Error(err)
			}
			cancel()
			<-done
			if len(s.bodies) != 1 || strings.Contains(s.bodies[0], "co did it") || len(n.Failing()) != 0 {
				t.Fatalf("bodies %v, failing %v", s.bodies, n.Failing())
			}
		})
	}
}

func goRun(ctx context.Context, t *testing.T, n *notify.Notifier) <-chan struct{} {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := n.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	return done
}

func TestTargetConfigsNameTheField(t *testing.T) {
	t.Parallel()
	for field, err := range map[string]error{
		"RoutingKey": second(notify.NewPagerDuty(notify.PagerDutyConfig{})),
		"URLs":       second(notify.NewAlertmanager(notify.AlertmanagerConfig{})),
		"URLs[0]":    second(notify.NewAlertmanager(notify.AlertmanagerConfig{URLs: []notify.Secret{"nonsense"}})),
		"Resend":     second(notify.NewAlertmanager(notify.AlertmanagerConfig{URLs: []notify.Secret{"http://a"}, Resend: time.Hour})),
		"URL":        second(notify.NewSlack(notify.SlackConfig{})),
	} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func ExampleNew() {
	hook, err := notify.NewWebhook(notify.WebhookConfig{URL: "https://example.com/hook", Secret: "shared key"})
	if err != nil {
		panic(err)
	}
	n, err := notify.New(notify.Config{Targets: []notify.Target{hook}}, nil)
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	n.Publish(nil) // all that fires now: nothing
	cancel()
	fmt.Println(n.Run(ctx), len(n.Failing()))
	// Output: <nil> 0
}

// A redirect would hand alerts, and what signs or addresses them, to somebody
// else: no target follows one, and none says in its error where it was sent.
func TestNoTargetFollowsRedirects(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") }))
	t.Cleanup(elsewhere.Close)
	for _, status := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		server := httptest.NewServer(http.RedirectHandler(elsewhere.URL+"/T0KEN", status))
		t.Cleanup(server.Close)
		transport := &http.Transport{}
		t.Cleanup(transport.CloseIdleConnections)
		url := notify.Secret(server.URL)
		hook, err1 := notify.NewWebhook(notify.WebhookConfig{URL: url, Secret: "hunter2", Transport: transport})
		slack, err2 := notify.NewSlack(notify.SlackConfig{URL: url, Transport: transport})
		duty, err3 := notify.NewPagerDuty(notify.PagerDutyConfig{RoutingKey: "hunter2", URL: url, Transport: transport})
		am, err4 := notify.NewAlertmanager(notify.AlertmanagerConfig{URLs: []notify.Secret{url}, Transport: transport})
		if err := errors.Join(err1, err2, err3, err4); err != nil {
			t.Fatal(err)
		}
		for _, target := range append(am, hook, slack, duty) {
			err := target.Send(t.Context(), []notify.Alert{hot("page")})
			se, ok := errors.AsType[*notify.SendError](err)
			if !ok || se.Status != status || se.Temporary() || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s: %d: %v", target.Name(), status, err)
			}
		}
	}
}

// An alert that was opened under another routing key is unknown under the new
// one: it is triggered there, instead of being resolved one day without ever
// having been told. The state holds no key.
func TestPagerDutyKnowsWhichKeyOpenedAnAlert(t *testing.T) {
	t.Parallel()
	triggered := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var event struct {
			RoutingKey  string `json:"routing_key"`
			EventAction string `json:"event_action"`
		}
		if err := json.NewDecoder(r.Body).Decode(&event); err != nil {
			t.Error(err)
		}
		triggered <- event.EventAction + " " + event.RoutingKey
	}))
	t.Cleanup(server.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	var state notify.State
	run := func(key notify.Secret) (got []string) {
		t.Helper()
		duty, err := notify.NewPagerDuty(notify.PagerDutyConfig{RoutingKey: key, URL: notify.Secret(server.URL), Transport: transport})
		if err != nil {
			t.Fatal(err)
		}
		n, stop := started(t, notify.Config{Targets: []notify.Target{duty}}, state)
		n.Publish([]notify.Alert{hot("page")})
		if err := n.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
		stop()
		state = n.State()
		for len(triggered) > 0 {
			got = append(got, <-triggered)
		}
		return got
	}
	if got := run("k1-s3cret"); len(got) != 1 || got[0] != "trigger k1-s3cret" {
		t.Fatalf("%q", got)
	}
	if got := run("k1-s3cret"); len(got) != 0 {
		t.Fatalf("the same key again: %q", got)
	}
	if got := run("k2-s3cret"); len(got) != 1 || got[0] != "trigger k2-s3cret" {
		t.Fatalf("another key: %q", got)
	}
	if data, err := json.Marshal(state); err != nil || strings.Contains(string(data), "s3cret") {
		t.Fatalf("%s, %v", data, err)
	}
}
