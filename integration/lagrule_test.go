package integration

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/consumer"
	"github.com/tenantlane/tenantlane/internal/load"
	"github.com/tenantlane/tenantlane/lagwatch"
	"github.com/tenantlane/tenantlane/lagwatch/lag"
	"github.com/tenantlane/tenantlane/lagwatch/notify"
)

// pager is a webhook's receiver.
type pager struct {
	target notify.Target

	mu sync.Mutex
	// guards received
	received []notify.WebhookAlert
}

func startPager(t *testing.T) *pager {
	t.Helper()
	p := &pager{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body notify.WebhookBody
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.received = append(p.received, body.Alerts...)
	}))
	t.Cleanup(server.Close)
	var err error
	p.target, err = notify.NewWebhook(notify.WebhookConfig{URL: notify.Secret(server.URL)})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// pages are the alerts of that name and status, in the order of delivery.
func (p *pager) pages(name, status string) []notify.WebhookAlert {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(p.received), func(a notify.WebhookAlert) bool {
		return a.Name != name || a.Status != status
	})
}

// watch runs a watcher of the run's group until the test ends.
func (r *run) watch(p *pager) *lagwatch.Watcher {
	r.t.Helper()
	rule := lag.Defaults()
	rule.Interval, rule.For, rule.KeepFiring, rule.DrainOK = 200*time.Millisecond, time.Second, time.Second, 0
	rule.MinDelay = 500 * time.Millisecond
	w, err := lagwatch.New(lagwatch.Config{
		KafkaOpts: []kgo.Opt{kgo.SeedBrokers(r.broker.addrs...)},
		Groups:    []string{r.group}, Table: r.table, Rule: &rule,
		Targets: []notify.Target{p.target}, Logger: testLogger(r.t),
	})
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { err = w.Run(ctx) })
	r.t.Cleanup(func() {
		cancel()
		running.Wait()
		if err != nil {
			r.t.Errorf("watcher: %v", err)
		}
	})
	return w
}

// One tenant of many sends what its lane cannot take: lagwatch pages once, for
// its partition, with its name, and resolves once when the lane has caught up.
func TestLagRule(t *testing.T) {
	forEachBroker(t, func(t *testing.T, b broker) {
		r := newRun(t, b)
		culprit := r.tenants.Tenants[len(r.tenants.Tenants)/2].Tenant
		topic, _ := r.table.Table().Topic(r.topic)
		hot := topic.Lookup([]byte(culprit), nil).Partition
		release := make(chan struct{})
		stuck := func(ctx context.Context, record *consumer.Record) error {
			if string(record.Tenant) != culprit {
				return nil
			}
			select {
			case <-release:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		workers := []*worker{r.start(stuck), r.start(stuck)}
		p := startPager(t)
		watcher := r.watch(p)
		ctx := deadline(t, time.Minute)
		during(r, func() {
			r.awaitShare(share, workers...)
			r.produce("import", 0, load.Burst{Tenant: culprit, Count: 5000})
			await(ctx, t, "a page", func() bool { return len(p.pages("partition_hot", "firing")) > 0 })
			close(release)
			await(ctx, t, "its end", func() bool { return len(p.pages("partition_hot", "resolved")) > 0 })
		})
		fired, resolved := p.pages("partition_hot", "firing"), p.pages("partition_hot", "resolved")
		if len(fired) != 1 || len(resolved) != 1 || fired[0].DedupKey != resolved[0].DedupKey {
			t.Fatalf("fired %d times, resolved %d times, want once each: %+v %+v", len(fired), len(resolved), fired, resolved)
		}
		page := fired[0]
		if page.Tenant != culprit || !slices.Equal(page.Partitions, []int32{hot}) || page.Topic != r.topic || page.Group != r.group {
			t.Errorf("the page is for tenant %q, partitions %v of %s, group %s; want %q, [%d] of %s, %s",
				page.Tenant, page.Partitions, page.Topic, page.Group, culprit, hot, r.topic, r.group)
		}
		if page.Severity == "ticket" {
			t.Errorf("severity %s, want a page", page.Severity)
		}
		t.Logf("page: %s", page.Summary)
		if last := watcher.Last(); last.Blind {
			t.Errorf("the watcher is blind: %v", last.Errors)
		}
		judge(t, r, true)
	})
}

// assertBlind waits until the watcher says that it sees nothing, and holds it
// to that: a partition that nobody answers for is unknown.
func assertBlind(ctx context.Context, t *testing.T, watcher *lagwatch.Watcher) {
	t.Helper()
	await(ctx, t, "a blind evaluation", func() bool { return watcher.Last().Blind })
	for _, pool := range watcher.Last().Groups {
		for _, p := range pool.Partitions {
			if p.Known {
				t.Errorf("partition %d is known though no broker answers", p.Partition)
			}
		}
	}
}

// awaitSight waits until the watcher sees everything.
func awaitSight(ctx context.Context, t *testing.T, watcher *lagwatch.Watcher) {
	t.Helper()
	await(ctx, t, "an evaluation that sees all", func() bool {
		last := watcher.Last()
		return last != nil && !last.Blind && len(last.Groups) > 0
	})
}
