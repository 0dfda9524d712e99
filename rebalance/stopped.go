package rebalance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

// StoppedMove is a move during which the tenant's producers wait.
type StoppedMove struct {
	// Topic and Tenant that move.
	Topic  string
	Tenant string
	// To is the new home: one partition, or several with Spread.
	To     []int32
	Spread routing.Spread
	// Groups must all drain the old home before the table is switched. Empty
	// means every group that has a commit in the topic.
	Groups []string
	// DrainTimeout bounds how long the tenant is held back before the move is
	// aborted; DefaultDrainTimeout by default.
	DrainTimeout time.Duration
}

// State is how a move ended.
type State string

// The states in which a move ends.
const (
	// StateAborted: the table is the old one, and the tenant's producers go on
	// as before.
	StateAborted State = "aborted"
	// StateDone: the table is the new one.
	StateDone State = "done"
	// StateUnknown: it could not be found out. Whatever holds, the table says it,
	// and a move that is not switched is aborted at its deadline.
	StateUnknown State = "unknown"
)

// The modes of a move.
const (
	ModeStopped = "stopped"
	ModeStrict  = "strict"
)

// Report says what a move did.
type Report struct {
	// ID of a strict move in the table; empty if it was refused.
	ID            string
	Topic, Tenant string
	// Slots that moved instead of a tenant.
	Slots []routing.SlotMove
	// From and To are the unit's old and new partitions.
	From, To []int32
	// Mode is ModeStopped or ModeStrict.
	Mode  string
	State State
	// Epoch of the new placement, and Revision of the table that has it; 0 if
	// the move was aborted.
	Epoch, Revision uint64
	// Pause is how long the tenant's new records waited: from the first
	// producer's pause to the last one's resume. Of a strict move: from when the
	// table was asked to hold them back until it said where they go, or that
	// they may go on.
	Pause time.Duration
	// Fences of a strict move, one in each old partition.
	Fences []routing.Fence
	// Waits are the sessions of producers that a strict move waited for, the
	// slowest last. Those with Over died without a word, and those with Left
	// still held the move up when it was aborted.
	Waits []Wait
	// Sessions is how many producers were registered for the topic when a strict
	// move began. With none, nobody holds anything back, and none needs to.
	Sessions int
	// Groups that were waited for.
	Groups []string
	// Ends are the offsets that their commits had to reach, by partition.
	Ends map[int32]int64
}

// MoveStopped moves a tenant, and returns when its producers have resumed. An
// error with StateAborted means that nothing has changed; one with StateDone
// that the tenant has moved and a producer has not yet seen it, which goes on
// by itself.
func (c *Coordinator) MoveStopped(ctx context.Context, m StoppedMove) (Report, error) {
	if m.DrainTimeout == 0 {
		m.DrainTimeout = DefaultDrainTimeout
	}
	s := &stopped{
		c: c, move: m, tenant: []byte(m.Tenant),
		report: Report{Topic: m.Topic, Tenant: m.Tenant, To: slices.Clone(m.To), Mode: ModeStopped, State: StateAborted},
		log:    c.cfg.Logger.With(zap.String("topic", m.Topic), zap.String("tenant", m.Tenant)),
	}
	release, err := c.claim(unit{m.Topic, m.Tenant})
	if err == nil {
		defer release()
		err = s.run(ctx)
	}
	if err != nil {
		return s.report, fmt.Errorf("move of tenant %q of topic %s to %v, %s: %w", m.Tenant, m.Topic, m.To, s.report.State, err)
	}
	return s.report, nil
}

// stopped is one move at work.
type stopped struct {
	c      *Coordinator
	move   StoppedMove
	tenant []byte
	log    *zap.Logger
	report Report
	from   routing.Route // the old placement
	paused time.Time
}

func (s *stopped) run(ctx context.Context) error {
	if err := s.plan(ctx); err != nil {
		return err
	}
	s.pause()
	if err := s.drainAndSwitch(ctx); err != nil {
		s.resume()
		s.log.Warn("move aborted, producers resume by the old table", zap.Error(err), zap.Duration("pause", s.report.Pause))
		return err
	}
	return s.resumeByNewTable(ctx)
}

// plan finds out all that can be wrong before anybody waits.
func (s *stopped) plan(ctx context.Context) error {
	if s.move.DrainTimeout < 0 {
		return fmt.Errorf("DrainTimeout is %v, must not be negative", s.move.DrainTimeout)
	}
	table := s.c.cfg.Table.Table()
	topic, ok := table.Topic(s.move.Topic)
	if !ok {
		return fmt.Errorf("routing table revision %d has no topic %s", table.Revision(), s.move.Topic)
	}
	if s.move.Tenant == "" {
		return errors.New("Tenant is empty")
	}
	s.from = topic.Lookup(s.tenant, nil)
	s.report.From = slices.Clone(s.from.Partitions)
	if s.from.Topic != "" {
		return fmt.Errorf("the tenant is placed in topic %s, move it there", s.from.Topic)
	}
	if _, err := s.edit(table); err != nil {
		return err
	}
	if s.alreadyThere(topic) {
		return fmt.Errorf("the tenant is placed on %v already", s.move.To)
	}
	if _, err := s.c.spans(ctx, s.move.Topic, s.move.To); err != nil {
		return fmt.Errorf("new home: %w", err) // the topic may lack what the table names
	}
	groups, err := s.groups(ctx)
	s.report.Groups = groups
	return err
}

// alreadyThere is true for the same partitions in the same way. A tenant that
// follows its slot may be pinned to the partition where it is.
func (s *stopped) alreadyThere(topic *routing.Topic) bool {
	place, ok := topic.Placement(s.move.Tenant)
	return ok && !place.FollowSlot && slices.Equal(place.Partitions, s.move.To) && place.Spread == s.move.Spread
}

func (s *stopped) groups(ctx context.Context) ([]string, error) {
	if len(s.move.Groups) > 0 {
		return slices.Clone(s.move.Groups), nil
	}
	return s.c.groupsOf(ctx, s.move.Topic)
}

// edit gives the table that follows another by this move.
func (s *stopped) edit(table *routing.Table) (*routing.Table, error) {
	topic, ok := table.Topic(s.move.Topic)
	if !ok {
		return nil, fmt.Errorf("topic %s is gone: %w", s.move.Topic, ErrPlacementChanged)
	}
	if now := topic.Lookup(s.tenant, nil); now.Epoch != s.from.Epoch || !slices.Equal(now.Partitions, s.from.Partitions) {
		return nil, fmt.Errorf("from %v to %v: %w", s.from.Partitions, now.Partitions, ErrPlacementChanged)
	}
	return table.Edit(routing.SetPlacement(s.move.Topic, s.move.Tenant, routing.Placement{
		Partitions: s.move.To, Spread: s.move.Spread, Tier: s.from.Tier,
	}))
}

func (s *stopped) pause() {
	s.paused = time.Now()
	for _, p := range s.c.cfg.Producers {
		p.Pause(s.move.Topic, s.tenant)
	}
	s.log.Info("tenant paused for a move", zap.Int("producers", len(s.c.cfg.Producers)))
}

// drainAndSwitch is what happens while the tenant is held back. After an error
// the table is the old one.
func (s *stopped) drainAndSwitch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.move.DrainTimeout)
	defer cancel()
	for _, p := range s.c.cfg.Producers {
		if err := s.settle(ctx, p); err != nil {
			return err
		}
	}
	spans, err := s.c.spans(ctx, s.move.Topic, s.from.Partitions)
	if err != nil {
		return fmt.Errorf("old home: %w", err)
	}
	s.report.Ends = make(map[int32]int64, len(spans))
	for partition, span := range spans {
		s.report.Ends[partition] = span.end
	}
	s.log.Info("old home drains", zap.Any("ends", s.report.Ends), zap.Strings("groups", s.report.Groups))
	if err := s.c.drain(ctx, s.report.Groups, s.move.Topic, spans); err != nil {
		return err
	}
	return s.switchTable(ctx)
}

// settle returns when the producer has nothing of the tenant in flight.
func (s *stopped) settle(ctx context.Context, p Pauser) error {
	if settling, ok := p.(settler); ok {
		return settling.Settle(ctx, s.move.Topic, s.tenant)
	}
	poll := time.NewTicker(s.c.cfg.Poll)
	defer poll.Stop()
	for {
		n := p.InFlight(s.move.Topic, s.tenant)
		if n == 0 {
			return nil
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return fmt.Errorf("%d records still in flight: %w", n, ctx.Err())
		}
	}
}

// switchTable writes the table. Others may write theirs at the same time: this
// one then follows, unless the tenant's own placement changed.
func (s *stopped) switchTable(ctx context.Context) error {
	for {
		before := s.c.cfg.Table.Changed()
		next, err := s.edit(s.c.cfg.Table.Table())
		if err != nil {
			return err
		}
		err = s.c.cfg.Table.Write(ctx, next)
		if err == nil || s.tookEffect(next) {
			s.switched(next, err)
			return nil
		}
		if !errors.Is(err, store.ErrRevision) {
			return err
		}
		select {
		case <-before: // the other's table
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", err, ctx.Err())
		}
	}
}

// tookEffect tells whether a write that failed did replace the table. Another
// writer's placement may have the same epoch, so the home counts too.
func (s *stopped) tookEffect(next *routing.Table) bool {
	now, _, ok := s.c.cfg.Table.Table().Route(s.move.Topic, s.tenant, nil)
	want, _, _ := next.Route(s.move.Topic, s.tenant, nil)
	return ok && now.Epoch == want.Epoch && now.Kind == want.Kind && now.Topic == want.Topic &&
		slices.Equal(now.Partitions, want.Partitions)
}

// switched notes the point of no return. An error of a write that took effect
// is no reason to go back.
func (s *stopped) switched(table *routing.Table, err error) {
	topic, _ := table.Topic(s.move.Topic)
	s.report.State = StateDone
	s.report.Revision, s.report.Epoch = table.Revision(), topic.Lookup(s.tenant, nil).Epoch
	s.log.Info("table switched", zap.Uint64("revision", s.report.Revision), zap.Uint64("epoch", s.report.Epoch), zap.Error(err))
}

func (s *stopped) resume() {
	for _, p := range s.c.cfg.Producers {
		p.Resume(s.move.Topic, s.tenant)
	}
	s.report.Pause = time.Since(s.paused)
}

// resumeByNewTable lets each producer go once it knows the new table. Those
// that wait for it do so by themselves, whatever becomes of ctx.
func (s *stopped) resumeByNewTable(ctx context.Context) error {
	for _, p := range s.c.cfg.Producers {
		if v, ok := p.(viewer); ok {
			v.ResumeAt(s.move.Topic, s.tenant, s.report.Revision)
		} else {
			p.Resume(s.move.Topic, s.tenant)
		}
	}
	err := s.awaitViews(ctx)
	s.report.Pause = time.Since(s.paused)
	s.log.Info("move done", zap.Duration("pause", s.report.Pause), zap.Error(err))
	return err
}

func (s *stopped) awaitViews(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.move.DrainTimeout)
	defer cancel()
	for _, p := range s.c.cfg.Producers {
		if v, ok := p.(viewer); ok {
			if err := v.WaitRevision(ctx, s.report.Revision); err != nil {
				return fmt.Errorf("a producer resumes later: %w", err)
			}
		}
	}
	return nil
}
