package notify_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/tenantlane/tenantlane/lagwatch/notify"
)

// pager is a target in memory that answers as told.
type pager struct {
	name     string
	again    time.Duration
	refuse   error // of Send
	refuseMn error // of SendMinimal

	mu sync.Mutex
	// guards all below
	answers []error // of the next calls of Send; then refuse
	got     []string
	calls   int
	lastAt  time.Time
}

func (p *pager) Name() string            { return p.name }
func (p *pager) Renotify() time.Duration { return p.again }

func (p *pager) Send(_ context.Context, alerts []notify.Alert) error {
	return p.take("", alerts, p.refuse)
}

func (p *pager) SendMinimal(_ context.Context, alerts []notify.Alert) error {
	return p.take("minimal ", alerts, p.refuseMn)
}

func (p *pager) take(how string, alerts []notify.Alert, err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	p.lastAt = time.Now()
	if how == "" && len(p.answers) > 0 {
		err, p.answers = p.answers[0], p.answers[1:]
	}
	if err != nil {
		return err
	}
	for _, a := range alerts {
		p.got = append(p.got, fmt.Sprintf("%s%s %s %s", how, a.Name, a.Severity, a.Status()))
	}
	return nil
}

func (p *pager) requireGot(t *testing.T, want ...string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if diff := cmp.Diff(want, p.got); diff != "" {
		t.Fatalf("%s got (-want +got):\n%s", p.name, diff)
	}
}

// started runs a notifier inside a bubble until the test ends it.
func started(t *testing.T, cfg notify.Config, state notify.State) (n *notify.Notifier, stop func()) {
	t.Helper()
	n, err := notify.New(cfg, state)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	return n, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func hot(severity string) notify.Alert {
	return notify.Alert{Name: "partition_hot", Cluster: "c", Group: "g", Topic: "t", Pool: "shared", Severity: severity}
}

func TestEachAlertIsToldOnceAndItsEndOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &pager{name: "a"}
		n, stop := started(t, notify.Config{Targets: []notify.Target{p}}, nil)
		for i := range 20 { // the tenant and the partitions change: the same alert
			a := hot("page")
			a.Tenant, a.Partitions = fmt.Sprint("tenant-", i), []int32{int32(i)}
			n.Publish([]notify.Alert{a})
			synctest.Wait()
		}
		n.Publish([]notify.Alert{hot("critical")}) // louder
		synctest.Wait()
		n.Publish([]notify.Alert{hot("page")})
		synctest.Wait()
		n.Publish(nil)
		if err := n.Settle(t.Context()); err != nil {
			t.Error(err)
		}
		n.Publish(nil)
		stop()
		p.requireGot(t, "partition_hot page firing", "partition_hot critical firing", "partition_hot critical resolved")
	})
}

func TestTemporaryFailuresBackOffAndLoseNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		busy := &notify.SendError{Status: 429, RetryAfter: 90 * time.Second, Err: errors.New("slow down")}
		p := &pager{name: "a", answers: []error{
			&notify.SendError{Err: errors.New("connection refused")},
			&notify.SendError{Status: 503, Err: errors.New("down")},
			busy,
		}}
		n, stop := started(t, notify.Config{Targets: []notify.Target{p}}, nil)
		defer stop()
		begin := time.Now()
		n.Publish([]notify.Alert{hot("page")})
		if err := n.Settle(t.Context()); err != nil {
			t.Error(err)
		}
		p.requireGot(t, "partition_hot page firing")
		// 1 s, 2 s, then what the other side asks for instead of 4 s.
		if got := p.lastAt.Sub(begin); got != 93*time.Second {
			t.Errorf("delivered after %v", got)
		}
		if len(n.Failing()) != 0 {
			t.Errorf("still failing: %v", n.Failing())
		}
	})
}

// What began and ended while a target was down is never told; what goes on is.
func TestOnlyTheNewestSetCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &pager{name: "a", answers: []error{&notify.SendError{Err: errors.New("down")}}}
		n, stop := started(t, notify.Config{Targets: []notify.Target{p}}, nil)
		defer stop()
		n.Publish([]notify.Alert{hot("page")})
		synctest.Wait()
		stuck := hot("page")
		stuck.Name = "partition_stuck"
		n.Publish([]notify.Alert{stuck})
		if err := n.Settle(t.Context()); err != nil {
			t.Error(err)
		}
		p.requireGot(t, "partition_stuck page firing")
	})
}

func TestRefusalSendsLessThenFallsBackAndTriesEachRound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		bad := &notify.SendError{Status: 400, Err: errors.New("no such field")}
		p := &pager{name: "a", refuse: bad, refuseMn: bad}
		other := &pager{name: "fallback"}
		n, stop := started(t, notify.Config{Targets: []notify.Target{p}, Fallback: other}, nil)
		for range 3 {
			n.Publish([]notify.Alert{hot("page")})
			synctest.Wait()
		}
		if p.calls != 6 || n.Failing()["a"] == nil {
			t.Errorf("%d calls, failing %v", p.calls, n.Failing())
		}
		other.requireGot(t, "partition_hot page firing")
		p.mu.Lock()
		p.refuseMn = nil
		p.mu.Unlock()
		n.Publish([]notify.Alert{hot("page")})
		synctest.Wait()
		p.requireGot(t, "minimal partition_hot page firing")
		if len(n.Failing()) != 0 {
			t.Errorf("still failing: %v", n.Failing())
		}
		stop()
	})
}

func TestDeadTargetFallsBackAndDelaysNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dead := &pager{name: "dead", refuse: &notify.SendError{Err: errors.New("no route")}}
		fine, other := &pager{name: "fine"}, &pager{name: "fallback"}
		n, stop := started(t, notify.Config{Targets: []notify.Target{dead, fine}, Fallback: other}, nil)
		n.Publish([]notify.Alert{hot("page")})
		synctest.Wait()
		fine.requireGot(t, "partition_hot page firing")
		pass(10 * time.Second)
		n.Publish(nil)
		pass(10 * time.Minute)
		synctest.Wait()
		other.requireGot(t, "partition_hot page firing")
		fine.requireGot(t, "partition_hot page firing", "partition_hot page resolved")
		stop()
	})
}

func TestStateSurvivesARestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &pager{name: "a"}
		n, stop := started(t, notify.Config{Targets: []notify.Target{p}}, nil)
		n.Publish([]notify.Alert{hot("page")})
		synctest.Wait()
		stop()
		n, stop = started(t, notify.Config{Targets: []notify.Target{p}}, n.State())
		synctest.Wait() // nothing is known yet: nothing ends
		n.Publish([]notify.Alert{hot("page")})
		synctest.Wait()
		n.Publish(nil)
		synctest.Wait()
		stop()
		p.requireGot(t, "partition_hot page firing", "partition_hot page resolved")
	})
}

func TestRenotifyAfterItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &pager{name: "a", again: 4 * time.Hour}
		n, stop := started(t, notify.Config{Targets: []notify.Target{p}}, nil)
		defer stop()
		n.Publish([]notify.Alert{hot("page")})
		pass(9 * time.Hour)
		p.requireGot(t, "partition_hot page firing", "partition_hot page firing", "partition_hot page firing")
	})
}

func TestCancelDeliversWhatIsDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &pager{name: "a", answers: []error{&notify.SendError{Status: 503, RetryAfter: time.Hour, Err: errors.New("down")}}}
		n, stop := started(t, notify.Config{Targets: []notify.Target{p}}, nil)
		n.Publish([]notify.Alert{hot("page")})
		synctest.Wait()
		stop()
		p.requireGot(t, "partition_hot page firing")
	})
}

func TestConfigNamesTheField(t *testing.T) {
	t.Parallel()
	for field, cfg := range map[string]notify.Config{
		"Targets": {Targets: []notify.Target{&pager{name: "a"}, &pager{name: "a"}}},
		"Backoff": {Backoff: notify.Backoff{Min: time.Minute, Max: time.Second}},
	} {
		if _, err := notify.New(cfg, nil); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestKeyIsTheIdentityAlone(t *testing.T) {
	t.Parallel()
	a, b := hot("page"), hot("critical")
	b.Tenant, b.Partitions, b.Summary, b.Class = "acme", []int32{4}, "x", "HOT"
	if a.Key() != b.Key() || len(a.Key()) != 64 {
		t.Fatalf("keys %s %s", a.Key(), b.Key())
	}
	for _, other := range []notify.Alert{
		{Name: "partition_hot", Cluster: "c", Group: "g", Topic: "tshared"},
		{Name: "partition_hot", Cluster: "c", Group: "g", Topic: "t", Pool: "acme"},
	} {
		if other.Key() == a.Key() {
			t.Errorf("%+v has the same key", other)
		}
	}
}

func TestLogsCarryNoSecret(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.DebugLevel)
	hook, err := notify.NewWebhook(notify.WebhookConfig{URL: "http://127.0.0.1:1/T0KEN", Secret: "hunter2"})
	if err != nil {
		t.Fatal(err)
	}
	n, err := notify.New(notify.Config{Targets: []notify.Target{hook}, Logger: zap.New(core)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	n.Publish([]notify.Alert{hot("page")})
	if err := n.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if logs.Len() == 0 {
		t.Fatal("a failure is not logged")
	}
	for _, e := range logs.All() {
		if text := fmt.Sprint(e.Message, e.ContextMap()); strings.Contains(text, "T0KEN") || strings.Contains(text, "hunter2") {
			t.Errorf("a secret is logged: %s", text)
		}
	}
}

// pass lets a bubble's virtual time go by.
func pass(d time.Duration) { <-time.After(d) }

// The replica that does not send books what the sender delivers, and on taking
// over repeats only what may not have been delivered.
func TestTakingOverRepeatsOnlyWhatIsInDoubt(t *testing.T) {
	t.Parallel()
	const doubt = time.Minute
	alert := func(name string) notify.Alert {
		a := hot("page")
		a.Name = name
		return a
	}
	synctest.Test(t, func(t *testing.T) {
		p := &pager{name: "a"}
		n, stop := started(t, notify.Config{Targets: []notify.Target{p}}, nil)
		n.SetActive(false, doubt, nil)
		publish := func(names ...string) {
			var alerts []notify.Alert
			for _, name := range names {
				alerts = append(alerts, alert(name))
			}
			n.Publish(alerts)
			synctest.Wait()
		}
		publish("old", "ended-long-ago", "ended-lately")
		pass(10 * time.Minute)
		publish("old", "ended-lately")
		pass(10 * time.Minute)
		publish("old", "new")
		pass(time.Second)
		p.requireGot(t)
		n.SetActive(true, doubt, nil)
		publish("old", "new")
		p.requireGot(t, "new page firing", "ended-lately page resolved")
		publish()
		stop()
		slices.Sort(p.got)
		p.requireGot(t, "ended-lately page resolved", "new page firing", "new page resolved", "old page resolved")
	})
}

// ownSilences is a pager that has silences of its own.
type ownSilences struct{ *pager }

func (ownSilences) Silences() bool { return true }

// What is muted does not begin, unless the target decides that itself; what was
// told before stays open without getting louder, and its end is told.
func TestMutedAlertsBeginLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mutes atomic.Bool
		slack, am := &pager{name: "slack"}, ownSilences{&pager{name: "alertmanager"}}
		n, stop := started(t, notify.Config{
			Targets: []notify.Target{slack, am}, Muted: func(*notify.Alert) bool { return mutes.Load() },
		}, nil)
		gone := hot("page")
		gone.Name = "gone"
		publish := func(alerts ...notify.Alert) {
			n.Publish(alerts)
			synctest.Wait()
		}
		publish(hot("page"))
		mutes.Store(true)
		publish(hot("critical"), gone)
		slack.requireGot(t, "partition_hot page firing")
		publish(gone)
		slack.requireGot(t, "partition_hot page firing", "partition_hot page resolved")
		mutes.Store(false)
		publish(gone)
		stop()
		slack.requireGot(t, "partition_hot page firing", "partition_hot page resolved", "gone page firing")
		am.requireGot(t, "partition_hot page firing", "partition_hot critical firing", "gone page firing", "partition_hot critical resolved")
	})
}

// Who takes over and knows what the replica before has told repeats nothing of
// it: not what is open, not what was ended; but it tells what got louder, and
// what was not told in the end.
func TestTakingOverWithKnowledgeRepeatsNothing(t *testing.T) {
	t.Parallel()
	const doubt = time.Minute
	alert := func(name, severity string) notify.Alert {
		a := hot(severity)
		a.Name = name
		return a
	}
	synctest.Test(t, func(t *testing.T) {
		p := &pager{name: "a"}
		n, stop := started(t, notify.Config{Targets: []notify.Target{p}}, nil)
		n.SetActive(false, doubt, nil)
		publish := func(alerts ...notify.Alert) {
			n.Publish(alerts)
			synctest.Wait()
		}
		publish(alert("told", "page"), alert("louder", "critical"), alert("untold", "page"), alert("ended", "page"), alert("still open", "page"))
		publish(alert("told", "page"), alert("louder", "critical"), alert("untold", "page"))
		open := map[string]string{}
		for _, name := range []string{"told", "louder", "still open"} {
			a := alert(name, "page")
			open[a.Key()] = "page"
		}
		n.SetActive(true, doubt, func(target, key string, _ time.Time, _ bool) (string, bool) { return open[key], target == "a" })
		publish(alert("told", "page"), alert("louder", "critical"), alert("untold", "page"))
		slices.Sort(p.got)
		p.requireGot(t, "louder critical firing", "still open page resolved", "untold page firing")
		stop()
	})
}
