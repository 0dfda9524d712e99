package partitioner

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

// lateProducer has n records of acme that are written to partition 0 and
// answered after the lease has ended.
func lateProducer(t *testing.T, n int, opts ...kgo.Opt) (*Producer, *registry, *outcome, func(ahead int64), func(total int) []*kgo.Record) {
	t.Helper()
	c := cluster(t, 2)
	src := registering(tableOf(t, wrapped(2, map[string]int32{"acme": 0})))
	p := producing(t, c, src, ProducerConfig{}, opts...)
	if err := p.ProduceSync(patient(t), record("acme", 0)).FirstErr(); err != nil {
		t.Fatal(err)
	}
	slow := withoutLeader(c, 0)
	var o outcome
	for i := range n {
		p.Produce(context.Background(), record("acme", i+1), o.promise())
	}
	eventually(t, "in flight", func() bool { return p.InFlight("orders", []byte("acme")) == n })
	src.lapse()
	slow.Remove()
	eventually(t, "all are late", func() bool { return p.moves.late.Load() == int64(n) })
	if p.InFlight("orders", []byte("acme")) != 0 {
		t.Error("a late record counts as in flight, and a move would wait for it")
	}
	move := func(ahead int64) {
		src.prepare(t, "m1", "acme", 1)
		src.finish(t, c, "m1", ahead)
	}
	return p, src, &o, move, func(total int) []*kgo.Record { return read(t, c, "orders", total) }
}

func (o *outcome) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.errs)
}

func TestALateAcknowledgementBeforeTheFenceIsPassedOn(t *testing.T) {
	p, src, o, move, log := lateProducer(t, 3)
	move(0)
	var fresh outcome
	p.Produce(context.Background(), record("acme", "fresh"), fresh.promise())
	if err := fresh.wait(t)[0]; !errors.Is(err, store.ErrStaleTable) {
		t.Errorf("a new record without a lease: %v", err)
	}
	if o.count() != 0 {
		t.Error("a promise was called before the lease was back")
	}
	src.renew()
	o.ok(t)
	if got := values(log(4)); !slices.Equal(got, []string{"0", "1", "2", "3"}) {
		t.Errorf("the log holds %v", got)
	}
	p.empty(t)
}

// TestALateRecordBehindTheFenceGoesAgainBeforeAnythingNewer has a move that
// passed the Producer over: its fence lies before the last two of three records.
func TestALateRecordBehindTheFenceGoesAgainBeforeAnythingNewer(t *testing.T) {
	p, src, o, move, log := lateProducer(t, 3)
	move(3) // at the offset of the record before them
	src.renew()
	var fresh outcome
	eventually(t, "the new lease", func() bool { return src.Err() == nil })
	p.Produce(context.Background(), record("acme", "fresh"), fresh.promise())
	o.ok(t)
	fresh.ok(t)
	var home []string
	seqs := map[string][]uint64{}
	for _, r := range log(7) {
		stamp := stampOf(t, header(r, routing.HeaderRoute))
		seqs[string(r.Value)] = append(seqs[string(r.Value)], stamp.Seq)
		if stamp.Session != p.Session() || len(header(r, routing.HeaderTime)) != 1 {
			t.Errorf("record %s has headers %v", r.Value, r.Headers)
		}
		if r.Partition == 1 {
			home = append(home, string(r.Value))
			if stamp.Epoch != 2 {
				t.Errorf("record %s has epoch %d", r.Value, stamp.Epoch)
			}
		}
	}
	if !slices.Equal(home, []string{"2", "3", "fresh"}) {
		t.Errorf("the new home holds %v", home)
	}
	for _, value := range []string{"2", "3"} {
		if s := seqs[value]; len(s) != 2 || s[0] != s[1] {
			t.Errorf("record %s has sequences %v", value, s)
		}
	}
	if len(o.errs) != 3 {
		t.Errorf("%d promises for 3 records", len(o.errs))
	}
	for _, r := range o.records {
		if want := map[string]int32{"1": 0, "2": 1, "3": 1}[string(r.Value)]; r.Partition != want {
			t.Errorf("record %s is reported in partition %d", r.Value, r.Partition)
		}
	}
	p.empty(t)
}

func TestALateRecordWaitsForTheEndOfItsOpenMove(t *testing.T) {
	p, src, o, _, log := lateProducer(t, 1)
	src.prepare(t, "m1", "acme", 1)
	src.renew()
	src.awaitDrained(t, "m1") // nothing is in flight: the move need not wait
	if o.count() != 0 {
		t.Error("acknowledged while the fence may lie before it")
	}
	src.edit(t, routing.AbortMove("orders", "m1"))
	o.ok(t)
	log(2)
	p.empty(t)
}

// TestNothingOvertakesWhatAnEarlierTermSent has a record in flight across a
// lapse of the lease in which its tenant moved.
func TestNothingOvertakesWhatAnEarlierTermSent(t *testing.T) {
	c := cluster(t, 2)
	src := registering(tableOf(t, wrapped(2, map[string]int32{"acme": 0})))
	p := producing(t, c, src, ProducerConfig{})
	if err := p.ProduceSync(patient(t), record("acme", 0)).FirstErr(); err != nil {
		t.Fatal(err)
	}
	slow := withoutLeader(c, 0)
	defer slow.Remove()
	var o outcome
	p.Produce(context.Background(), record("acme", 1), o.promise())
	eventually(t, "in flight", func() bool { return p.InFlight("orders", []byte("acme")) == 1 })
	src.lapse()
	src.prepare(t, "m1", "acme", 1)
	src.finish(t, c, "m1", 1) // the record lands behind it
	src.renew()
	p.Produce(context.Background(), record("acme", 2), o.promise())
	eventually(t, "the new record waits", func() bool { return p.waitingRecords() == 1 })
	slow.Remove()
	o.ok(t)
	var home []string
	for _, r := range read(t, c, "orders", 4) {
		if r.Partition == 1 {
			home = append(home, string(r.Value))
		}
	}
	if !slices.Equal(home, []string{"1", "2"}) {
		t.Errorf("the new home holds %v", home)
	}
	p.empty(t)
}

func TestCloseAnswersLateRecordsOnce(t *testing.T) {
	p, _, o, _, _ := lateProducer(t, 2)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := p.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
	for _, err := range o.wait(t) {
		if !errors.Is(err, ErrClosed) || !errors.Is(err, store.ErrStaleTable) {
			t.Errorf("error is %v", err)
		}
	}
	if o.count() != 2 {
		t.Errorf("%d promises", o.count())
	}
}
