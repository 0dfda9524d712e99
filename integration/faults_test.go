package integration

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/tenantlane/tenantlane/integration/kafka"
)

// startCluster starts brokers that only this test uses, and may kill.
func startCluster(t *testing.T, nodes int) (*kafka.Cluster, broker) {
	t.Helper()
	return startClusterWith(t, kafka.Config{Nodes: nodes, Logf: t.Logf})
}

func startClusterWith(t *testing.T, cfg kafka.Config) (*kafka.Cluster, broker) {
	t.Helper()
	realBroker(t) // skips where there shall be none
	if err := kafka.Available(); err != nil {
		t.Skipf("KAFKA_BROKERS names brokers that are not ours to kill, and %v", err)
	}
	cluster, err := kafka.Start(deadline(t, 2*time.Minute), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			cluster.KeepLogs()
		}
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	return cluster, broker{name: "kafka", addrs: cluster.Addrs()}
}

// Of three brokers one is killed with kill -9 under load: the one that
// coordinates the group, and leads its share of partitions. In a soak the
// others follow, each once the replicas are in sync again.
func TestBrokersAreKilled(t *testing.T) {
	cluster, b := startCluster(t, 3)
	ctx := deadline(t, 4*time.Minute)
	r := newRun(t, b)
	first, second := r.start(slowly), r.start(slowly)
	during(r, func() {
		r.awaitShare(share, first, second)
		for _, node := range victims(ctx, t, r) {
			if err := cluster.Kill(node); err != nil {
				t.Fatal(err)
			}
			r.awaitShare(share, first, second)
			if err := cluster.Restart(ctx, node); err != nil {
				t.Fatal(err)
			}
			if err := cluster.WaitInSync(ctx); err != nil {
				t.Fatal(err)
			}
		}
	})
	judge(t, r, false)
}

// victims are the nodes to kill, the group's coordinator first.
func victims(ctx context.Context, t *testing.T, r *run) []int {
	t.Helper()
	found := kadm.NewClient(r.client).FindGroupCoordinators(ctx, r.group)[r.group]
	if found.Err != nil {
		t.Fatal(found.Err)
	}
	coordinator := int(found.NodeID)
	if os.Getenv("TENANTLANE_SOAK") == "" {
		return []int{coordinator}
	}
	return []int{coordinator, coordinator%3 + 1, (coordinator+1)%3 + 1}
}

// The only broker hangs for longer than the workers' session: connections stay
// open and nothing answers. Then it goes on. Meanwhile the watcher is blind, not
// happy.
func TestBrokerHangs(t *testing.T) {
	cluster, b := startCluster(t, 1)
	ctx := deadline(t, 2*time.Minute)
	r := newRun(t, b)
	first, second := r.start(slowly), r.start(slowly)
	watcher := r.watch(startPager(t))
	during(r, func() {
		r.awaitShare(share, first, second)
		awaitSight(ctx, t, watcher)
		session := time.NewTimer(sessionTimeout + 2*time.Second)
		if err := cluster.Pause(1); err != nil {
			t.Fatal(err)
		}
		assertBlind(ctx, t, watcher)
		<-session.C
		if err := cluster.Resume(1); err != nil {
			t.Fatal(err)
		}
		r.awaitShare(share, first, second)
		awaitSight(ctx, t, watcher)
	})
	judge(t, r, false)
}
