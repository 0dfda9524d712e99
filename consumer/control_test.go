package consumer_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/tenantlane/tenantlane/consumer"
	"github.com/tenantlane/tenantlane/consumer/offset"
)

var errBad = errors.New("cannot be handled")

// badParks fails the records of tenant "bad" whose value is "1".
func badParks(j *journal) consumer.Handler {
	return func(ctx context.Context, r *consumer.Record) error {
		if err := j.handle(ctx, r); err != nil {
			return err
		}
		if string(r.Tenant) == "bad" && string(r.Value) == "1" {
			return consumer.Permanent(errBad)
		}
		return nil
	}
}

// lanesSaid are the lanes that the group's commit of a partition names.
func (c *cluster) lanesSaid(t *testing.T, partition int32) []offset.Lane {
	t.Helper()
	said, why := offset.Decode(c.GroupInfo(group).Commits[topic][partition].Metadata)
	if why != offset.Valid {
		t.Fatalf("the commit's metadata is ignored: %v", why)
	}
	return said.Lanes
}

// A pause is answered when the broker has it, and a worker that takes over
// after kill -9 keeps the tenant paused until an operator resumes it there.
func TestAPauseIsAnsweredWhenItIsCommittedAndOutlivesItsWorker(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	c.produce(sequence(0, 1, "bad")...)
	c.produce(sequence(0, 20, "a", "b")...)
	j := newJournal()
	core, logs := observer.New(zapcore.InfoLevel)
	cfg := c.config()
	cfg.Logger = zap.New(core)
	w := c.start(cfg, badParks(j))
	j.waitFor(t, 41)
	if effect, err := w.PauseTenant(t.Context(), []byte("bad"), consumer.Act{Actor: "eve", Reason: "import"}); err != nil || !effect.Committed || effect.Lanes != 1 {
		t.Fatalf("%+v, %v", effect, err)
	}
	if said := c.lanesSaid(t, 0); len(said) != 1 || !said[0].Paused || !said[0].Parked {
		t.Fatalf("committed: %+v", said)
	}
	w.kill()

	w = c.start(cfg, badParks(j))
	c.eventually(t, "the pause at the next worker", func() bool {
		return w.Tenant([]byte("bad")).State == consumer.StatePaused
	})
	act := consumer.Act{Actor: "adam", Reason: "import is over"}
	if effect, err := w.SkipRecord(t.Context(), []byte("bad"), consumer.Place{Topic: topic, Partition: 0, Offset: 0}, act); err != nil || !effect.Committed {
		t.Fatalf("skip: %+v, %v", effect, err)
	}
	if at := c.committed(0); at != 41 {
		t.Errorf("answered with offset %d committed, want 41", at)
	}
	if effect, err := w.ResumeTenant(t.Context(), []byte("bad"), act); err != nil || !effect.Committed {
		t.Fatalf("resume: %+v, %v", effect, err)
	}
	c.produce(sequence(0, 3, "bad")[1:]...)
	j.waitFor(t, 43)
	if err := w.stop(); err != nil {
		t.Fatal(err)
	}
	for message, actor := range map[string]string{"tenant paused": "eve", "record skipped": "adam", "tenant resumed": "adam"} {
		if entries := logs.FilterMessage(message).All(); len(entries) != 1 || entries[0].ContextMap()["actor"] != actor {
			t.Errorf("log of %q: %v", message, entries)
		}
	}
}

func TestAnActNeedsARunningWorker(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	rt, err := consumer.New(c.config(), newJournal().handle)
	if err != nil {
		t.Fatal(err)
	}
	for what, act := range map[string]func() error{
		"pause":  func() error { _, err := rt.PauseTenant(t.Context(), []byte("a"), consumer.Act{}); return err },
		"resume": func() error { _, err := rt.ResumeTenant(t.Context(), []byte("a"), consumer.Act{}); return err },
		"skip": func() error {
			_, err := rt.SkipRecord(t.Context(), []byte("a"), consumer.Place{Topic: topic}, consumer.Act{})
			return err
		},
	} {
		if err := act(); !errors.Is(err, consumer.ErrNotRunning) {
			t.Errorf("%s before Run: %v", what, err)
		}
	}
	if err := rt.LimitTenant([]byte("a"), consumer.Limits{Weight: -1}, consumer.Act{}); err == nil || !strings.Contains(err.Error(), "Weight") {
		t.Errorf("a negative weight: %v", err)
	}
	if err := rt.Ready(); !errors.Is(err, consumer.ErrNotJoined) {
		t.Errorf("ready before Run: %v", err)
	}
}

// A pause of a tenant without a record holds, but there is nothing to commit.
func TestAPauseOfAnIdleTenantHoldsHereOnly(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	j, l := newJournal(), newLedger()
	w := c.start(l.watch(c.config()), j.handle)
	l.waitAssigned(t, 1)
	if err := w.Ready(); err != nil {
		t.Errorf("a member of the group: %v", err)
	}
	if effect, err := w.PauseTenant(t.Context(), []byte("a"), consumer.Act{Actor: "me"}); err != nil || effect != (consumer.Effect{}) {
		t.Errorf("%+v, %v", effect, err)
	}
	c.produce(sequence(0, 5, "a", "b")...)
	j.waitFor(t, 5)
	if err := w.stop(); err != nil {
		t.Fatal(err)
	}
	if err := w.Ready(); !errors.Is(err, consumer.ErrEnding) {
		t.Errorf("ready after its end: %v", err)
	}
	for _, h := range j.all() {
		if h.tenant != "b" {
			t.Errorf("handled %+v of a paused tenant", h)
		}
	}
}
