package integration

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/tenantlane/tenantlane/integration/kafka"
	"github.com/tenantlane/tenantlane/lagwatch"
	"github.com/tenantlane/tenantlane/lagwatch/lag"
)

// sight is a cluster of three whose parts can be taken from the watcher: topic
// "orders" without replicas, so that each broker leads some partitions alone,
// and groups whose coordinators have no replicas either.
type sight struct {
	t       *testing.T
	cluster *kafka.Cluster
	admin   *kadm.Client
	groups  map[int32]string // by coordinator
	watcher *lagwatch.Watcher
	seen    chan *lagwatch.Evaluation
}

const sightPartitions = 6

func newSight(t *testing.T) *sight {
	t.Helper()
	realBroker(t)
	if err := kafka.Available(); err != nil {
		t.Skipf("KAFKA_BROKERS names brokers that are not ours to kill, and %v", err)
	}
	ctx := deadline(t, 3*time.Minute)
	root := kgo.SASL(plain.Auth{User: "root", Pass: "r00t"}.AsMechanism())
	cluster, err := kafka.Start(ctx, kafka.Config{Nodes: 3, Logf: t.Logf, KafkaOpts: []kgo.Opt{root}, Properties: map[string]string{
		"offsets.topic.replication.factor": "1", "offsets.topic.num.partitions": "12", // a dead coordinator's groups are lost
		"listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT",
		"sasl.enabled.mechanisms":        "PLAIN", "sasl.mechanism.inter.broker.protocol": "PLAIN",
		"listener.name.plaintext.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required " +
			`username="root" password="r00t" user_root="r00t" user_watch="w4tch";`,
		"authorizer.class.name":          "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
		"allow.everyone.if.no.acl.found": "true",
		"super.users":                    "User:ANONYMOUS;User:root", // the controllers among themselves, and the test
	}})
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
	b := broker{name: "kafka", addrs: cluster.Addrs()}
	client := b.client(t, root, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	s := &sight{t: t, cluster: cluster, admin: kadm.NewClient(client), groups: map[int32]string{}, seen: make(chan *lagwatch.Evaluation, 10_000)}
	s.fill(ctx, client)
	s.watch(b)
	return s
}

// fill makes partition 0 hot for every group, of which each broker coordinates
// one.
func (s *sight) fill(ctx context.Context, client *kgo.Client) {
	s.t.Helper()
	if _, err := s.admin.CreateTopic(ctx, sightPartitions, 1, nil, "orders"); err != nil {
		s.t.Fatal(err)
	}
	await(ctx, s.t, "every broker knows the topic", func() bool { return known(ctx, client, "orders") })
	late := time.Now().Add(-10 * time.Minute)
	for range 5000 {
		client.Produce(ctx, &kgo.Record{Topic: "orders", Partition: 0, Key: []byte("importer"), Timestamp: late}, nil)
	}
	if err := client.Flush(ctx); err != nil {
		s.t.Fatal(err)
	}
	commits := kadm.Offsets{}
	for p := range int32(sightPartitions) {
		commits.AddOffset("orders", p, 0, -1)
	}
	for i := 0; len(s.groups) < 3; i++ {
		group := fmt.Sprint("billing-", i)
		if err := s.admin.CommitAllOffsets(ctx, group, commits); err != nil {
			s.t.Fatal(err)
		}
		found := s.admin.FindGroupCoordinators(ctx, group)[group]
		if found.Err != nil {
			s.t.Fatal(found.Err)
		}
		if _, taken := s.groups[found.NodeID]; !taken {
			s.groups[found.NodeID] = group
		}
	}
}

func (s *sight) names() (names []string) {
	for _, g := range s.groups {
		names = append(names, g)
	}
	slices.Sort(names)
	return names
}

// watch runs a watcher until the test ends.
func (s *sight) watch(b broker) {
	s.t.Helper()
	rule := lag.Defaults()
	rule.Interval, rule.For, rule.KeepFiring, rule.DrainOK = 500*time.Millisecond, time.Second, 0, 0
	var err error
	s.watcher, err = lagwatch.New(lagwatch.Config{
		KafkaOpts: []kgo.Opt{kgo.SeedBrokers(b.addrs...), kgo.SASL(plain.Auth{User: "watch", Pass: "w4tch"}.AsMechanism())},
		Groups:    s.names(), Rule: &rule, SampleTimeout: 9 * time.Second,
		Logger: testLogger(s.t), OnEvaluation: func(e *lagwatch.Evaluation) { s.seen <- e },
	})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { err = s.watcher.Run(ctx) })
	s.t.Cleanup(func() {
		cancel()
		running.Wait()
		if err != nil {
			s.t.Error(err)
		}
	})
}

// until reads evaluations until one is as wanted, checking on the way that
// every page of the beginning stays open and that no partition vanishes.
func (s *sight) until(ctx context.Context, what string, holds func(*lagwatch.Evaluation) bool) {
	s.t.Helper()
	for {
		select {
		case <-ctx.Done():
			s.t.Fatalf("waited in vain: %s; last: %+v", what, s.watcher.Last())
		case e := <-s.seen:
			for _, group := range s.names() {
				pool := poolOf(e, group)
				if pool == nil || len(pool.Partitions) != sightPartitions {
					s.t.Fatalf("group %s or its partitions vanished", group)
				}
				if !fires(pool, lag.AlertHot) {
					s.t.Fatalf("the page of group %s ended while %s", group, what)
				}
			}
			if holds(e) {
				return
			}
		}
	}
}

func poolOf(e *lagwatch.Evaluation, group string) *lagwatch.PoolEvaluation {
	for i := range e.Groups {
		if e.Groups[i].Group == group {
			return &e.Groups[i]
		}
	}
	return nil
}

func fires(pool *lagwatch.PoolEvaluation, alert string) bool {
	return slices.ContainsFunc(pool.Firing, func(f lagwatch.Firing) bool { return f.Alert == alert })
}

func unknown(pool *lagwatch.PoolEvaluation) (n int) {
	for _, p := range pool.Partitions {
		if p.Class == lag.Unknown {
			n++
		}
	}
	return n
}

// blindWithin wants a group's blindness to be said within three rounds of the
// first that did not see something of it.
func (s *sight) blindWithin(ctx context.Context, group string, least int) {
	s.t.Helper()
	rounds := 0
	s.until(ctx, "group "+group+" is not seen", func(e *lagwatch.Evaluation) bool {
		pool := poolOf(e, group)
		if !e.Blind || unknown(pool) < least {
			return false
		}
		if rounds++; rounds > 3 {
			s.t.Fatalf("no monitor_blind of %s after %d rounds", group, rounds)
		}
		return fires(pool, lag.AlertBlind)
	})
}

func (s *sight) sees(ctx context.Context) {
	s.t.Helper()
	s.until(ctx, "everything is seen again", func(e *lagwatch.Evaluation) bool { return !e.Blind })
}

// deny takes a permission from the watcher, and gives it back.
func (s *sight) deny(ctx context.Context, acl *kadm.ACLBuilder) (allow func()) {
	s.t.Helper()
	if _, err := s.admin.CreateACLs(ctx, acl); err != nil {
		s.t.Fatal(err)
	}
	return func() {
		if _, err := s.admin.DeleteACLs(ctx, acl); err != nil {
			s.t.Fatal(err)
		}
	}
}

func denied() *kadm.ACLBuilder {
	return kadm.NewACLs().Deny("User:watch").DenyHosts("*").ResourcePatternType(kmsg.ACLResourcePatternTypeLiteral).Operations(kadm.OpAll)
}

// Three brokers, and what a watcher meets: permissions taken away on a live
// client, a broker that hangs, one that is killed with its partitions and its
// groups. What cannot be read is unknown, nothing resolves, and blindness is
// said within three rounds.
func TestSightIsLostAndNothingResolves(t *testing.T) {
	s := newSight(t)
	ctx := deadline(t, 4*time.Minute)
	for started := false; !started; { // until every group has its page
		select {
		case <-ctx.Done():
			t.Fatalf("no pages: %+v", s.watcher.Last())
		case e := <-s.seen:
			started = !e.Blind
			for _, g := range s.names() {
				started = started && poolOf(e, g) != nil && fires(poolOf(e, g), lag.AlertHot)
			}
		}
	}
	group := s.groups[2]

	allow := s.deny(ctx, denied().Topics("orders"))
	s.blindWithin(ctx, group, sightPartitions)
	allow()
	s.sees(ctx)

	allow = s.deny(ctx, denied().Groups(group))
	s.blindWithin(ctx, group, sightPartitions)
	if e := s.watcher.Last(); unknown(poolOf(e, s.groups[3])) != 0 {
		t.Errorf("another group is blind too: %+v", e.Errors)
	}
	allow()
	s.sees(ctx)

	if err := s.cluster.Pause(2); err != nil {
		t.Fatal(err)
	}
	s.blindWithin(ctx, group, 1)
	s.until(ctx, "the other brokers' groups are seen", func(e *lagwatch.Evaluation) bool {
		n := unknown(poolOf(e, s.groups[3]))
		return n > 0 && n < sightPartitions
	})
	if err := s.cluster.Resume(2); err != nil {
		t.Fatal(err)
	}
	s.sees(ctx)

	if err := s.cluster.Kill(2); err != nil {
		t.Fatal(err)
	}
	s.blindWithin(ctx, group, sightPartitions) // its coordinator is gone
	s.until(ctx, "the other brokers' partitions are seen", func(e *lagwatch.Evaluation) bool {
		n := unknown(poolOf(e, s.groups[3]))
		return n > 0 && n < sightPartitions
	})
	if err := s.cluster.Restart(ctx, 2); err != nil {
		t.Fatal(err)
	}
	s.sees(ctx)
}
