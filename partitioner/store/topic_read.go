package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// retryPause is the time between two tries of what failed; a reader that has to
// start again and again waits up to restartPause.
const (
	retryPause   = 250 * time.Millisecond
	restartPause = 30 * time.Second
)

// errPassing marks what may heal by itself, such as a broker that is away.
var errPassing = errors.New("cannot read the routing topic now")

// follow reads the topic from the start and on, until ctx ends; a reader that
// must not go on is replaced by a new one at the start.
func (t *Topic) follow(ctx context.Context) {
	pause := retryPause
	for ctx.Err() == nil {
		before := t.fresh.Load()
		err := t.readFromStart(ctx)
		if ctx.Err() != nil {
			return
		}
		if t.fresh.Load() != before { // it got to the end this time
			pause = retryPause
		}
		t.cfg.Logger.Warn("routing table is read again from the start", zap.Error(err), zap.Duration("pause", pause))
		t.metrics.reloaded()
		sleep(ctx, pause)
		pause = min(2*pause, restartPause)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// readFromStart reads until ctx ends or the records read so far are no longer
// good for a table, which is the error.
func (t *Topic) readFromStart(ctx context.Context) error {
	reader, err := kgo.NewClient(t.cfg.opts(
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{t.cfg.RoutingTopic(): {0: kgo.NewOffset().AtStart()}}),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), // a reset would go on in another log
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), // else a position never passes a transaction's marker
		kgo.FetchMaxWait(500*time.Millisecond),
	)...)
	if err != nil {
		t.fail(fmt.Errorf("%w: %w", errPassing, err))
		return err
	}
	defer reader.Close()
	reading, interrupt := context.WithCancel(ctx)
	defer interrupt()
	t.restart(interrupt)
	for {
		fetches := reader.PollFetches(reading)
		if reading.Err() != nil {
			return t.Err() // why a heartbeat interrupted, or nothing of interest
		}
		var failed error
		fetches.EachError(func(_ string, _ int32, err error) { failed = err })
		if isLost(failed) {
			return failed
		}
		if failed != nil {
			t.fail(fmt.Errorf("%w: %w", errPassing, failed))
			sleep(ctx, retryPause)
		}
		if err := t.apply(ctx, fetches.Records()); err != nil {
			return err
		}
	}
}

// isLost tells whether what was read is not what the topic has now. A client
// never gets over a topic that was deleted and made again.
func isLost(err error) bool {
	lost := (*kgo.ErrDataLoss)(nil)
	return errors.As(err, &lost) || errors.Is(err, kerr.OffsetOutOfRange) || isAnother(err)
}

// isAnother tells whether a topic of that name is there, and is not the one that
// a client knows.
func isAnother(err error) bool {
	return errors.Is(err, kerr.UnknownTopicID) || errors.Is(err, kerr.InconsistentTopicID)
}

// restart begins at the start of the log. The published table stays. Sessions
// register anew, since it may be another log, without their registrations.
func (t *Topic) restart(interrupt context.CancelFunc) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.logs.Add(1)
	t.replay, t.position, t.probe = routing.NewReplay(), 0, probe{}
	t.loading, t.interrupt, t.prepared = true, interrupt, nil
	t.changed()
	select {
	case t.kick <- struct{}{}: // look for the end of this log now
	default:
	}
}

// apply takes records and publishes what they make. The error asks for a start
// from the beginning.
func (t *Topic) apply(ctx context.Context, records []*kgo.Record) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.changed()
	if len(records) > 0 {
		t.openSince, t.foreign = time.Time{}, false
	}
	for _, r := range records {
		if r.Offset < t.position {
			return fmt.Errorf("offset %d after %d: the topic was made anew", r.Offset, t.position-1)
		}
		t.position = r.Offset + 1
		if !r.Attrs.IsControl() {
			t.replay.Apply(routing.Record{Key: r.Key, Value: r.Value})
			t.noteVersion()
		}
	}
	return t.settle(ctx)
}

// noteVersion remembers the versions that were read, for a writer to find its
// own among them; mu is held.
func (t *Topic) noteVersion() {
	const kept = 256
	v := t.replay.Version()
	t.versions[v.Revision] = v.ID
	delete(t.versions, v.Revision-kept)
}

// settle publishes if what was read is whole, and takes note of a heartbeat
// that the position has reached. mu is held.
func (t *Topic) settle(ctx context.Context) error {
	reached := !t.probe.at.IsZero() && t.position >= t.probe.end
	if !t.replay.Settled() && !t.foreign || t.loading && !reached {
		return nil
	}
	err := t.publishFold(ctx)
	if err == nil && t.foreign { // the table of the latest version holds all the same
		t.setBad(fmt.Errorf("%w, before offset %d", ErrForeign, t.position))
	} else {
		t.setBad(err)
	}
	if reached {
		t.reach(err == nil)
	}
	if reached && errors.Is(err, routing.ErrTorn) {
		return err // at the end, no later version will heal it
	}
	return nil
}

// reach takes note that everything up to the probe's end was read, and whether
// it is published. mu is held.
func (t *Topic) reach(published bool) {
	t.loading = false
	if published {
		t.asOf = t.probe.at
		fresh := t.asOf
		t.fresh.Store(&fresh)
	}
	t.probe = probe{}
}

// publishFold makes the table of the latest version and publishes it, unless
// it may not follow the present one. mu is held.
func (t *Topic) publishFold(ctx context.Context) error {
	next, err := t.replay.Fold()
	if errors.Is(err, routing.ErrNoTable) && t.cfg.Empty {
		return nil
	}
	if err != nil {
		return err
	}
	present := t.Table()
	first := present.Revision() == 0 && len(present.TopicNames()) == 0
	switch {
	case next == present || next == t.same:
		return nil
	case !first && next.Revision() == present.Revision() && len(routing.Changes(present, next)) == 0:
		t.same = next
		return nil
	case first:
	default:
		if err := next.MayReplace(present, func(topic string) bool { return t.hasData(ctx, topic) }); err != nil {
			return err
		}
	}
	v := t.replay.Version()
	t.cfg.Logger.Info("routing table replaced", zap.String("topic", t.cfg.RoutingTopic()), zap.Uint64("revision", next.Revision()),
		zap.Uint64("was", present.Revision()), zap.String("actor", v.Actor), zap.String("reason", v.Reason))
	t.metrics.loaded()
	t.notePrepared(next)
	t.publish(next)
	return nil
}

// fail takes note of why nothing can be read now.
func (t *Topic) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.setBad(err)
	t.changed()
}

// setBad takes note of why the view is not the topic's table and logs it once
// for each reason; mu is held.
func (t *Topic) setBad(err error) {
	if err != nil && (t.bad == nil || t.bad.Error() != err.Error()) {
		t.cfg.Logger.Error("routing table is kept as it was", zap.Error(err), zap.Uint64("revision", t.Table().Revision()))
		t.metrics.refused()
	}
	t.bad = err
}

// heartbeats look up the topic's end until ctx ends.
func (t *Topic) heartbeats(ctx context.Context) {
	for ctx.Err() == nil {
		at, position := time.Now(), t.at()
		end, err := t.end(ctx)
		pause := t.cfg.Heartbeat
		switch {
		case err == nil && end < position:
			t.madeAnew(end, position)
			pause = min(pause, retryPause)
		case err != nil:
			t.cfg.Logger.Debug("the routing topic's end is out of sight", zap.Error(err))
			pause = min(pause, retryPause)
		case !t.beat(ctx, probe{at, end}):
			pause = min(pause, retryPause)
		}
		select {
		case <-ctx.Done():
		case <-t.kick:
		case <-time.After(pause):
		}
	}
}

// at is the offset up to which the log was read.
func (t *Topic) at() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.position
}

// madeAnew makes the reader start again, since the topic ends below what was
// read of it.
func (t *Topic) madeAnew(end, position int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.changed()
	if t.loading {
		return // the reader has noticed
	}
	t.setBad(fmt.Errorf("%w: it ends at offset %d, and was read up to %d: the topic was made anew", errPassing, end, position))
	t.interrupt()
}

// noteForeign finds records that no version ends: everything up to the end is
// read, and yet they stay. Those of a transaction become visible together with
// its version. mu is held.
func (t *Topic) noteForeign(p probe) {
	switch {
	case t.replay.Settled() || t.position < p.end:
		t.openSince, t.foreign = time.Time{}, false
	case t.openSince.IsZero():
		t.openSince = p.at
	case passed(t.openSince) >= t.cfg.TransactionTimeout:
		t.foreign = true
	}
}

// beat takes a look at the end into account: at once, where the position is
// there, else when it gets there. It is false while something is amiss, for the
// next look to come sooner.
func (t *Topic) beat(ctx context.Context, p probe) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.changed()
	if !t.loading && !t.asOf.IsZero() && passed(t.asOf) > t.cfg.ReloadAfter {
		t.interrupt()
		t.setBad(fmt.Errorf("%w: out of touch for %v, longer than compaction leaves every version in place", errPassing, passed(t.asOf).Round(time.Second)))
		return false
	}
	if t.probe.at.IsZero() || p.end < t.probe.end {
		t.probe = p // one that is waited for stays, or a reader behind a busy writer never gets there
	}
	t.noteForeign(p)
	if err := t.settle(ctx); err != nil {
		t.interrupt()
	}
	return t.bad == nil && !t.loading
}
