package store

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

func TestWritersOnOneTableLoseNothing(t *testing.T) {
	cfg := quick(broker(t))
	reader := openTopic(t, cfg)
	update(t, reader, orders())
	const writers, changes = 3, 5
	var all sync.WaitGroup
	for w := range writers {
		store := openTopic(t, cfg)
		all.Go(func() {
			for i := range changes {
				tenant := fmt.Sprintf("writer-%d-%d", w, i)
				for {
					_, err := store.Update(patient(t), me, editing(routing.SetPlacement("orders", tenant, to(int32(w)))))
					if err == nil {
						break
					}
					if !errors.Is(err, ErrFenced) { // they may fence each other for ever, but never lose
						t.Error(err)
						return
					}
				}
			}
		})
	}
	all.Wait()
	table := awaitTable(t, reader, 1+writers*changes)
	if table.Revision() != 1+writers*changes {
		t.Errorf("revision %d after %d changes", table.Revision(), writers*changes)
	}
	for w := range writers {
		for i := range changes {
			if got := partitionOf(t, table, fmt.Sprintf("writer-%d-%d", w, i)); got != int32(w) {
				t.Errorf("change %d of writer %d is lost", i, w)
			}
		}
	}
	history, err := reader.History(patient(t))
	if err != nil || len(history) != 1+writers*changes {
		t.Errorf("%d changes in the history, %v", len(history), err)
	}
}

// killed is a writer that dies between its records.
func killed(t testing.TB, cfg TopicConfig, records ...routing.Record) {
	t.Helper()
	cfg = cfg.withDefaults()
	client, err := kgo.NewClient(cfg.opts(kgo.TransactionalID(cfg.transactionalID()), kgo.TransactionTimeout(cfg.TransactionTimeout))...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err = client.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if err = client.ProduceSync(patient(t), &kgo.Record{Topic: cfg.RoutingTopic(), Key: r.Key, Value: r.Value}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAWriterKilledBetweenItsRecordsLeavesNoTrace(t *testing.T) {
	bubble(t, func(t *testing.T, cfg TopicConfig, _ *kfake.Cluster) {
		store, closeIt := opened(t, cfg)
		defer closeIt()
		before := update(t, store, orders(), routing.SetPlacement("orders", "acme", to(1)))
		half := routing.Record{Key: []byte("placement/orders/acme"), Value: []byte(`{"v":1,"partitions":[7]}`)}

		// Nobody takes over: the broker ends the transaction, and readers go on.
		killed(t, cfg, half)
		began := time.Now()
		late, closeLate := opened(t, cfg) // found the end behind the open transaction
		defer closeLate()
		if took := time.Since(began); took < DefaultTransactionTimeout || took > 3*DefaultTransactionTimeout {
			t.Errorf("loading behind an open transaction took %v", took)
		}
		if got := partitionOf(t, late.Table(), "acme"); got != 1 || late.Table().Revision() != before.Revision() {
			t.Errorf("acme goes to %d by revision %d: half a transaction", got, late.Table().Revision())
		}

		// The next writer ends it at once.
		killed(t, cfg, half)
		began = time.Now()
		after := update(t, store, routing.SetPlacement("orders", "globex", to(2)))
		if took := time.Since(began); took > DefaultTransactionTimeout {
			t.Errorf("taking over took %v", took)
		}
		if got := partitionOf(t, after, "acme"); got != 1 || after.Revision() != before.Revision()+1 {
			t.Errorf("acme goes to %d by revision %d: half a transaction", got, after.Revision())
		}
	})
}

func TestACommitWhoseAnswerIsLost(t *testing.T) {
	for _, c := range []struct {
		name     string
		answer   *kerr.Error
		applied  bool
		revision uint64
	}{
		{"was applied", kerr.ProducerFenced, true, 2},
		{"was not", kerr.ProducerFenced, false, 2}, // decided and written anew
		{"was applied by a broker that failed", kerr.UnknownServerError, true, 2},
		{"was not by a broker that failed", kerr.UnknownServerError, false, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := embeddedBroker(t)
			store := openTopic(t, quick(b.Addrs()))
			update(t, store, orders())
			// The first answer is what a writer gets whom another one fences, be
			// it that the commit went through before or not.
			var asked atomic.Int32
			b.Cluster().ControlKey(int16(kmsg.EndTxn), func(req kmsg.Request) (kmsg.Response, error, bool) {
				b.Cluster().KeepControl()
				end := req.(*kmsg.EndTxnRequest)
				if n := asked.Add(1); n > 1 || !end.Commit {
					return nil, nil, false
				}
				if c.applied {
					b.Cluster().SleepControl(func() { commitElsewhere(t, b.Addrs(), *end) })
				}
				resp := end.ResponseKind().(*kmsg.EndTxnResponse)
				resp.ErrorCode = c.answer.Code
				return resp, nil, true
			})
			decided := 0
			table, err := store.Update(patient(t), me, func(present *routing.Table) (*routing.Table, error) {
				decided++
				return present.Edit(routing.SetPlacement("orders", "acme", to(3)))
			})
			if err != nil || table.Revision() != c.revision || partitionOf(t, store.Table(), "acme") != 3 {
				t.Errorf("revision %d, %v", table.Revision(), err)
			}
			if want := map[bool]int{true: 1, false: 2}[c.applied]; decided != want {
				t.Errorf("decided %d times, want %d", decided, want)
			}
		})
	}
}

// commitElsewhere commits on the writer's behalf, as the lost request did.
func commitElsewhere(t testing.TB, addrs []string, end kmsg.EndTxnRequest) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(addrs...))
	if err != nil {
		t.Error(err)
		return
	}
	defer client.Close()
	if _, err := end.RequestWith(patient(t), client); err != nil {
		t.Error(err)
	}
}

func TestForeignRecordsNeverReplaceAGoodTable(t *testing.T) {
	bubble(t, func(t *testing.T, cfg TopicConfig, _ *kfake.Cluster) {
		store, closeIt := opened(t, cfg)
		defer closeIt()
		update(t, store, orders(), routing.SetPlacement("orders", "acme", to(1)))
		foreign := func(key, value string) {
			r := routing.Record{Key: []byte(key), Value: []byte(value)}
			if err := store.send(t.Context(), cfg.RoutingTopic(), r); err != nil {
				t.Fatal(err)
			}
		}
		foreign("placement/orders/acme", `{"v":1,"partitions":[7]}`)
		foreign("version", `{"v":1,"revision":2,"digest":"1"}`)
		if err := store.await(t.Context(), "a refusal", func() (bool, error) { return store.bad != nil, nil }); err != nil {
			t.Fatal(err)
		}
		if err := store.Err(); !errors.Is(err, routing.ErrTorn) {
			t.Errorf("error is %v, want ErrTorn", err)
		}
		if got := partitionOf(t, store.Table(), "acme"); got != 1 || store.Table().Revision() != 1 {
			t.Errorf("acme goes to %d by revision %d", got, store.Table().Revision())
		}
		if _, err := OpenTopic(t.Context(), TopicConfig{KafkaOpts: cfg.KafkaOpts}); !errors.Is(err, routing.ErrTorn) {
			t.Errorf("a new reader's error is %v, want ErrTorn", err)
		}
	})
}

func TestTheNextChangeOverwritesForeignRecords(t *testing.T) {
	bubble(t, func(t *testing.T, cfg TopicConfig, _ *kfake.Cluster) {
		store, closeIt := opened(t, cfg)
		defer closeIt()
		update(t, store, orders(), routing.SetPlacement("orders", "acme", to(1)))
		foreign := routing.Record{Key: []byte("placement/orders/acme"), Value: []byte(`{"v":1,"partitions":[7]}`)}
		if err := store.send(t.Context(), cfg.RoutingTopic(), foreign); err != nil {
			t.Fatal(err)
		}
		if err := store.await(t.Context(), "a warning", func() (bool, error) { return errors.Is(store.bad, ErrForeign), nil }); err != nil {
			t.Fatal(err)
		}
		late, closeLate := opened(t, cfg)
		defer closeLate()
		if got := partitionOf(t, late.Table(), "acme"); got != 1 || late.Table().Revision() != 1 || !errors.Is(late.Err(), ErrForeign) {
			t.Errorf("acme goes to %d by revision %d, %v", got, late.Table().Revision(), late.Err())
		}
		if age := late.Age(); age > 10*time.Second {
			t.Errorf("the view is %v old: foreign records must not stop it", age)
		}
		update(t, late, routing.SetPlacement("orders", "globex", to(2)))
		if got := partitionOf(t, awaitTable(t, store, 2), "acme"); got != 1 {
			t.Errorf("acme goes to %d", got)
		}
		if err := errors.Join(store.Err(), late.Err()); err != nil {
			t.Error(err)
		}
	})
}

func TestHistoryAndRollback(t *testing.T) {
	cfg := quick(broker(t))
	store := openTopic(t, cfg)
	update(t, store, orders(), routing.SetTier("orders", "gold", routing.Tier{Weight: 50}))
	update(t, store, routing.SetPlacement("orders", "acme", to(1)))
	update(t, store, routing.SetPlacement("orders", "acme", to(2)), routing.SetSlots("orders", map[int32]int32{7: 1}))
	update(t, store, routing.RemoveTier("orders", "gold"), routing.SetPlacement("orders", "globex", to(5)))
	history, err := store.History(patient(t))
	if err != nil || len(history) != 4 {
		t.Fatalf("%d changes, %v", len(history), err)
	}
	last := history[3]
	if last.Revision != 4 || last.Actor != me.Actor || last.Reason != me.Reason || len(last.Changes) != 3 {
		t.Errorf("the last change is %+v", last)
	}
	then, err := store.TableAt(patient(t), store.Table(), 2)
	if err != nil || then.Revision() != 2 || partitionOf(t, then, "acme") != 1 {
		t.Errorf("revision 2 is %v, %v", then, err)
	}
	back, err := store.Rollback(patient(t), Author{Actor: "me", Reason: "wrong"}, 2)
	if err != nil {
		t.Fatal(err)
	}
	topic, _ := back.Topic("orders")
	acme, _ := topic.Placement("acme")
	globex, _ := topic.Placement("globex")
	if back.Revision() != 5 || !slices.Equal(acme.Partitions, []int32{1}) || acme.Epoch != topic.Epoch() || !globex.FollowSlot {
		t.Errorf("after the rollback: revision %d, epoch %d, acme %+v, globex %+v", back.Revision(), topic.Epoch(), acme, globex)
	}
	if _, ok := topic.TierNamed("gold"); !ok {
		t.Error("the tier is not back")
	}
	if diffs := routing.Diff(then, back); len(diffs) != 0 {
		t.Errorf("the rolled back table routes otherwise: %+v", diffs)
	}
	if _, err = store.Rollback(patient(t), me, 9); err == nil || !strings.Contains(err.Error(), "yet to come") {
		t.Errorf("error is %v", err)
	}
	client, err := kgo.NewClient(cfg.KafkaOpts...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	// Retention takes the beginning.
	cut := kadm.Offsets{}
	cut.Add(kadm.Offset{Topic: cfg.HistoryTopic(), Partition: 0, At: 4, LeaderEpoch: -1})
	if _, err = kadm.NewClient(client).DeleteRecords(patient(t), cut); err != nil {
		t.Fatal(err)
	}
	if _, err = store.Rollback(patient(t), me, 1); !errors.Is(err, ErrNoHistory) {
		t.Errorf("error is %v, want ErrNoHistory", err)
	}
}

// remade gives a store and a session of it whose routing topic was deleted and
// made again, by another store with the changes given.
func remade(t *testing.T, cfg TopicConfig, edits ...routing.Edit) (store, other *Topic, s *Session, closeAll func()) {
	t.Helper()
	store, closeIt := opened(t, cfg)
	update(t, store, orders())
	s, err := store.Register(t.Context(), SessionConfig{Topics: []string{"orders"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.admin.DeleteTopics(t.Context(), cfg.RoutingTopic()); err != nil {
		t.Fatal(err)
	}
	other, closeOther := opened(t, cfg)
	update(t, other, edits...)
	return store, other, s, func() {
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
		closeOther()
		closeIt()
	}
}

func TestTopicThatWasMadeAnewWithItsTableIsReadOn(t *testing.T) {
	bubble(t, func(t *testing.T, cfg TopicConfig, _ *kfake.Cluster) {
		store, other, s, closeAll := remade(t, cfg, orders())
		defer closeAll()
		<-time.After(time.Minute)
		if s.Err() != nil || store.Err() != nil || s.Registrations() < 2 {
			t.Errorf("session %v, store %v, %d registrations", s.Err(), store.Err(), s.Registrations())
		}
		if err := other.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		if all := other.replay.Sessions(); len(all) != 1 || all[0].ID != s.ID() {
			t.Errorf("sessions of the new topic: %+v", all)
		}
		update(t, other, routing.SetPlacement("orders", "acme", to(3)))
		if table := awaitTable(t, store, 2); partitionOf(t, table, "acme") != 3 {
			t.Error("a change in the new topic is not seen")
		}
	})
}

func TestTopicThatWasMadeAnewWithAnotherTableOfThatRevisionIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, cfg TopicConfig, _ *kfake.Cluster) {
		store, _, s, closeAll := remade(t, cfg, orders(), routing.SetPlacement("orders", "acme", to(3)))
		defer closeAll()
		<-time.After(time.Minute)
		if store.Err() == nil || s.Err() == nil {
			t.Errorf("store %v, session %v", store.Err(), s.Err())
		}
	})
}

func TestTopicThatWasMadeAnewKeepsTheTable(t *testing.T) {
	bubble(t, func(t *testing.T, cfg TopicConfig, _ *kfake.Cluster) {
		store, closeIt := opened(t, cfg)
		defer closeIt()
		update(t, store, orders())
		update(t, store, routing.SetPlacement("orders", "acme", to(3)))
		if _, err := store.admin.DeleteTopics(t.Context(), cfg.RoutingTopic()); err != nil {
			t.Fatal(err)
		}
		other, closeOther := opened(t, cfg)
		defer closeOther()
		update(t, other, orders())
		if err := store.await(t.Context(), "a refusal", func() (bool, error) { return store.bad != nil, nil }); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		if got := partitionOf(t, store.Table(), "acme"); got != 3 || store.Table().Revision() != 2 || store.Err() == nil {
			t.Errorf("acme goes to %d by revision %d, %v", got, store.Table().Revision(), store.Err())
		}
	})
}
