package lagwatch_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/internal/embedded"
	"github.com/tenantlane/tenantlane/lagwatch"
	"github.com/tenantlane/tenantlane/lagwatch/lag"
	"github.com/tenantlane/tenantlane/lagwatch/notify"
)

// cluster is an embedded broker with the topic "orders" of four partitions,
// and a client that fills it.
type cluster struct {
	t      *testing.T
	broker *embedded.Broker
	client *kgo.Client
	admin  *kadm.Client
}

func newCluster(t *testing.T, nodes int) *cluster {
	t.Helper()
	b, err := embedded.Start(embedded.Config{Nodes: nodes, Options: []kfake.Opt{kfake.SeedTopics(4, "orders")}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	client, err := kgo.NewClient(
		kgo.SeedBrokers(b.Addrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic("orders"),
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return &cluster{t, b, client, kadm.NewClient(client)}
}

// produce appends records of a tenant, as old as given.
func (c *cluster) produce(partition int32, tenant string, n int, age time.Duration) {
	c.t.Helper()
	records := make([]*kgo.Record, n)
	for i := range records {
		records[i] = &kgo.Record{
			Partition: partition, Key: []byte(tenant), Value: fmt.Appendf(nil, "%d", i), Timestamp: time.Now().Add(-age),
		}
	}
	if err := c.client.ProduceSync(c.t.Context(), records...).FirstErr(); err != nil {
		c.t.Fatal(err)
	}
}

// commit sets the commits of a group, one per partition; negative: none.
func (c *cluster) commit(group string, commits ...int64) {
	c.t.Helper()
	offsets := kadm.Offsets{}
	for p, o := range commits {
		if o >= 0 {
			offsets.AddOffset("orders", int32(p), o, -1)
		}
	}
	if err := c.admin.CommitAllOffsets(c.t.Context(), group, offsets); err != nil {
		c.t.Fatal(err)
	}
}

// watcher makes a watcher of the cluster, as changed by edit.
func (c *cluster) watcher(edit func(*lagwatch.Config)) *lagwatch.Watcher {
	c.t.Helper()
	cfg := lagwatch.Config{
		KafkaOpts: []kgo.Opt{kgo.SeedBrokers(c.broker.Addrs()...)}, SampleTimeout: 3 * time.Second,
	}
	if edit != nil {
		edit(&cfg)
	}
	w, err := lagwatch.New(cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	return w
}

func (c *cluster) once(edit func(*lagwatch.Config)) *lagwatch.Evaluation {
	c.t.Helper()
	e, err := c.watcher(edit).Once(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	return e
}

// rule is the defaults changed.
func rule(edit func(*lag.Rule)) *lag.Rule {
	r := lag.Defaults()
	edit(&r)
	return &r
}

// pool returns the evaluation of a group's pool.
func pool(t *testing.T, e *lagwatch.Evaluation, group, name string) *lagwatch.PoolEvaluation {
	t.Helper()
	for i := range e.Groups {
		if e.Groups[i].Group == group && e.Groups[i].Pool == name {
			return &e.Groups[i]
		}
	}
	t.Fatalf("no group %q with pool %q in %s", group, name, asJSON(t, e))
	return nil
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// requireNoHealth fails if a blind evaluation has a partition that looks well.
func requireNoHealth(t *testing.T, e *lagwatch.Evaluation) {
	t.Helper()
	if !e.Blind {
		t.Fatalf("not blind: %s", asJSON(t, e))
	}
	for _, g := range e.Groups {
		for _, p := range g.Partitions {
			if p.Known || p.Class != lag.Unknown || !strings.Contains(asJSON(t, p), `"lag":null`) {
				t.Fatalf("unseen partition %s", asJSON(t, p))
			}
		}
	}
}

// receiver is a webhook that hands over what it gets.
func receiver(t *testing.T) (target notify.Target, got <-chan notify.WebhookAlert) {
	t.Helper()
	alerts := make(chan notify.WebhookAlert, 100)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var body notify.WebhookBody
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		for _, a := range body.Alerts {
			alerts <- a
		}
	}))
	transport := &http.Transport{}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		s.Close()
	})
	w, err := notify.NewWebhook(notify.WebhookConfig{URL: notify.Secret(s.URL), Transport: transport})
	if err != nil {
		t.Fatal(err)
	}
	return w, alerts
}

// running runs a watcher until the returned function ends it.
func running(t *testing.T, w *lagwatch.Watcher) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// next waits for an alert; a test that waits in vain ends by its deadline.
func next(t *testing.T, got <-chan notify.WebhookAlert, name string) notify.WebhookAlert {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		select {
		case a := <-got:
			if a.Name == name {
				return a
			}
		case <-deadline:
			t.Fatalf("no %s", name)
		}
	}
}

func readAll(into *strings.Builder, r *http.Request) (int64, error) { return io.Copy(into, r.Body) }
