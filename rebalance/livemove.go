package rebalance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
	"github.com/tenantlane/tenantlane/rebalance/move"
)

// LiveMove says what moves where: one tenant, or slots.
type LiveMove struct {
	// Topic within which it moves.
	Topic string
	// Tenant that moves, and its new home: one partition, or several with Spread.
	Tenant string
	To     []int32
	Spread routing.Spread
	// Slots that move instead, each to its partition. Tenants with a placement
	// of their own stay.
	Slots map[int32]int32
	// AcceptUnordered lets a topic take part whose table entry does not say
	// producers: wrapped. See [UnorderedCost] for what that gives up.
	AcceptUnordered bool
	// Deadline is after how long the move is given up if it is not switched;
	// DefaultDeadline by default, at least a second.
	Deadline time.Duration
	// By is who moves it and why, for the table's history.
	By store.Author
	// Waiting, if not nil, is told whenever it changes which producers the move
	// waits for.
	Waiting func(waiting []routing.Session)
}

// UnorderedCost is what is given up by moving a unit of a topic whose producers
// are not all wrapped.
const UnorderedCost = "producers without partitioner.Producer do not wait: a record that one of them sends to the old partition during or after the move is handled beside newer ones in the new partition, in any order"

// errGone says that another party aborted the move.
var errGone = errors.New("another party aborted it at its deadline, or by command")

// switchMargin is what is kept of a move's deadline for its last two steps.
const switchMargin = 2 * time.Second

// switchTries is how often the switch is tried.
const switchTries = 3

// settleTimeout bounds how long it is tried to find out, or to make sure, how a
// move ended, with finishPause between two tries.
const (
	settleTimeout = 15 * time.Second
	finishPause   = 250 * time.Millisecond
)

// Move moves a tenant or slots, and returns once the table sends them to their
// new home, or as before:
//
//	check ─▶ PREPARE in the table ─▶ drained at every producer ─▶ FENCE in each old partition ─▶ SWITCHED in the table
//	  │              └──────────────────────┴──────────────────────────┴──▶ ABORTED in the table
//	  └─▶ refused: nothing was done
//
// After StateAborted nothing has changed, and a fence that was written means
// nothing. A refusal is a [*RefusedError]. The end of ctx aborts the move,
// unless it is switched already. Should this process die, anyone who follows the
// table aborts the move at its deadline.
func (c *LiveCoordinator) Move(ctx context.Context, m LiveMove) (Report, error) {
	if m.Deadline == 0 {
		m.Deadline = DefaultDeadline
	}
	l := &liveMove{
		c: c, move: m, waits: map[routing.SessionID]*Wait{},
		report: Report{Topic: m.Topic, Tenant: m.Tenant, To: slices.Clone(m.To), Mode: ModeStrict, State: StateAborted},
		log:    c.cfg.Logger.With(zap.String("topic", m.Topic)),
	}
	if m.Tenant != "" {
		l.log = l.log.With(zap.String("tenant", m.Tenant))
	}
	err := l.run(ctx)
	c.metrics.ended(&l.report, err)
	if err != nil {
		how := string(l.report.State)
		if l.report.ID == "" {
			how = "refused" // before it began
		}
		return l.report, fmt.Errorf("move of %s of topic %s, %s: %w", l.unit(), m.Topic, how, err)
	}
	return l.report, nil
}

// liveMove is one move at work.
type liveMove struct {
	c        *LiveCoordinator
	move     LiveMove
	log      *zap.Logger
	report   Report
	prepared *routing.Move
	deadline time.Time // of the move
	began    time.Time // of PREPARE: no producer holds anything back before
	switches int       // that gave an error
	waits    map[routing.SessionID]*Wait
	over     []routing.SessionID // passed over
}

func (l *liveMove) unit() string {
	switch {
	case l.move.Tenant != "":
		return fmt.Sprintf("tenant %q", l.move.Tenant)
	case len(l.move.Slots) == 1:
		return fmt.Sprintf("slot %d", slices.Collect(maps.Keys(l.move.Slots))[0])
	}
	return fmt.Sprintf("%d slots", len(l.move.Slots))
}

func (l *liveMove) run(ctx context.Context) error {
	if err := l.timed(stepCheck, func() error { return l.check(ctx) }); err != nil {
		l.log.Info("move refused", zap.Error(err))
		return err
	}
	id, err := newMoveID()
	if err != nil {
		return err
	}
	l.report.ID, l.log = id, l.log.With(zap.String("move", id))
	l.deadline = time.Now().Add(l.move.Deadline)
	err = l.drive(ctx)
	if !l.began.IsZero() {
		l.report.Pause = time.Since(l.began)
	}
	l.noteWaits()
	if err != nil {
		l.log.Warn("move ended", zap.String("state", string(l.report.State)), zap.Duration("pause", l.report.Pause), zap.Error(err))
		return err
	}
	l.log.Info("move switched", zap.Uint64("epoch", l.report.Epoch), zap.Uint64("revision", l.report.Revision),
		zap.Any("fences", l.report.Fences), zap.Duration("pause", l.report.Pause))
	return nil
}

// drive does what the move's course says until that has ended, whatever becomes
// of ctx meanwhile.
func (l *liveMove) drive(ctx context.Context) error {
	ctx, done := context.WithDeadline(ctx, l.deadline)
	defer done()
	ending, cease := context.WithCancel(context.WithoutCancel(ctx))
	defer cease()
	course := move.Coordinate(l.report.ID)
	var cause error
	for {
		action, _ := course.Next()
		switch action {
		case move.Stop:
			return l.ended(&course, cause)
		case move.Abort, move.Look:
			stop := time.AfterFunc(l.c.settle, cease)
			err := l.finish(ending, &course, action)
			stop.Stop()
			if err != nil {
				l.report.State = StateUnknown
				return fmt.Errorf("%w; then the table could not be asked or changed, and it is aborted at its deadline if it is not switched: %w", cause, err)
			}
		case move.Prepare, move.AwaitDrained, move.WriteFence, move.Switch:
			if err := l.advance(ctx, &course, action); err != nil {
				cause = err
			}
			if ctx.Err() != nil && cause != nil {
				course.GiveUp()
			}
		}
	}
}

// advance does one of the steps towards the switch, and tells the course.
func (l *liveMove) advance(ctx context.Context, course *move.Coordination, action move.Action) error {
	switch action {
	case move.Prepare:
		return l.timed(stepPrepare, func() error { return l.prepare(ctx, course) })
	case move.AwaitDrained:
		return l.timed(stepDrain, func() error { return l.drain(ctx, course) })
	case move.WriteFence:
		return l.timed(stepFence, func() error { return l.fence(ctx, course) })
	default:
		return l.timed(stepSwitch, func() error { return l.switchTable(ctx, course) })
	}
}

// finish asks the table how the move ended, or ends it, and tries again until
// ctx ends. Only the table is believed, never an error.
func (l *liveMove) finish(ctx context.Context, course *move.Coordination, action move.Action) error {
	for {
		table, err := l.c.lookOrAbort(ctx, l.move.Topic, l.report.ID, l.move.By, action == move.Abort)
		if err == nil {
			course.Unconfirmed() // so that what the table says is the end of it
			l.saw(course, table)
			return nil
		}
		l.log.Warn("the table does not say how the move ended, asking again", zap.Error(err))
		select {
		case <-ctx.Done():
			return err
		case <-time.After(finishPause):
		}
	}
}

// saw hands the table's word to the course.
func (l *liveMove) saw(course *move.Coordination, table *routing.Table) {
	var m *routing.Move
	if topic, ok := table.Topic(l.move.Topic); ok {
		m, _ = topic.Move(l.report.ID)
	}
	if m != nil {
		l.took(m)
	}
	course.Saw(m)
	if course.Outcome() == move.Switched {
		l.report.Revision = table.Revision()
	}
}

// took notes what the table holds of the move.
func (l *liveMove) took(m *routing.Move) {
	l.prepared = m
	l.report.From, l.report.To, l.report.Slots = m.From, m.To, m.Slots
}

// ended fills in the report by the course's outcome.
func (l *liveMove) ended(course *move.Coordination, cause error) error {
	if course.Outcome() != move.Switched {
		if cause == nil {
			cause = errGone
		}
		return cause
	}
	l.report.State, l.report.Fences, l.report.Epoch = StateDone, course.Fences(), l.prepared.Epoch
	return nil
}

func (l *liveMove) timed(step string, do func() error) error {
	began := time.Now()
	err := do()
	l.c.metrics.step(step, began)
	return err
}

// prepare holds the unit's records back.
func (l *liveMove) prepare(ctx context.Context, course *move.Coordination) error {
	table, err := l.c.cfg.Table.Update(ctx, l.move.By, func(present *routing.Table) (*routing.Table, error) {
		topic, err := l.mayMove(present)
		if err != nil {
			return nil, err
		}
		next, err := present.Edit(routing.PrepareMove(l.move.Topic, l.entry(topic, l.deadline)))
		l.began = time.Now() // what it took to become the writer held nobody back
		return next, asRefusal(err)
	})
	if errors.Is(err, ErrRefused) {
		course.Refuse()
		return err
	}
	if err != nil {
		course.Unconfirmed()
		return err
	}
	l.saw(course, table)
	l.log = l.log.With(zap.Int32s("from", l.report.From), zap.Int32s("to", l.report.To))
	l.log.Info("move prepared, producers hold the unit back", zap.Int("slots", len(l.report.Slots)), zap.Time("deadline", l.deadline))
	return nil
}

// entry is the move for the table.
func (l *liveMove) entry(topic *routing.Topic, deadline time.Time) routing.Move {
	m := routing.Move{ID: l.report.ID, Tenant: l.move.Tenant, Deadline: deadline}
	if m.Tenant != "" {
		m.To, m.ToSpread = l.move.To, l.move.Spread
		return m
	}
	m.Slots = slotMoves(topic, l.move.Slots)
	return m
}

// slotMoves are the slots that are not where they go yet, ascending.
func slotMoves(topic *routing.Topic, to map[int32]int32) []routing.SlotMove {
	var list []routing.SlotMove
	for _, slot := range slices.Sorted(maps.Keys(to)) {
		if from := topic.SlotPartition(slot); from != to[slot] {
			list = append(list, routing.SlotMove{Slot: slot, From: from, To: to[slot]})
		}
	}
	return list
}

// fence ends the unit in its old partitions, in all of them at once.
func (l *liveMove) fence(ctx context.Context, course *move.Coordination) error {
	fences, err := l.c.writeFences(ctx, l.move.Topic, l.prepared)
	if err != nil {
		course.GiveUp()
		return err
	}
	for _, f := range fences { // ascending, as the course has them
		course.Fenced(f.Offset)
	}
	l.log.Info("fences written", zap.Any("fences", fences))
	return nil
}

// switchTable sends the unit to its new home, from the fences on.
func (l *liveMove) switchTable(ctx context.Context, course *move.Coordination) error {
	table, err := l.c.cfg.Table.Update(ctx, l.move.By, func(present *routing.Table) (*routing.Table, error) {
		if topic, ok := present.Topic(l.move.Topic); !ok || !isOpen(topic, l.report.ID) {
			return nil, errGone
		}
		return present.Edit(routing.SwitchMove(l.move.Topic, l.report.ID, course.Fences(), l.over...))
	})
	switch {
	case errors.Is(err, errGone):
		course.Refuse()
		return err
	case err != nil:
		course.Unconfirmed()
		if l.switches++; l.switches == switchTries {
			course.GiveUp()
		}
		return err
	}
	course.Committed()
	l.report.Revision = table.Revision()
	return nil
}
