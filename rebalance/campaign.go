package rebalance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

// Defaults of a [Campaign].
const (
	// DefaultBatch is how many slots one move takes.
	DefaultBatch = 256
	// DefaultRetries is how often in a row a move is tried again: for longer than
	// the five minutes that consumers take by default to see new partitions.
	DefaultRetries = 20
)

// firstRetry and longestRetry bound the pause before a move is tried again.
const (
	firstRetry   = 500 * time.Millisecond
	longestRetry = 15 * time.Second
)

// TenantMove is one tenant of a [Campaign].
type TenantMove struct {
	Tenant string
	To     []int32
	Spread routing.Spread
}

// Campaign is many moves within one topic, such as a growth. What is done is
// told by the table alone, so a campaign that was cut off goes on where it was
// when it is run again.
type Campaign struct {
	Topic string
	// Slots go to their partitions, in batches: those of one old partition
	// together, so that few fences are written and few lanes wait at once.
	Slots map[int32]int32
	// Tenants go one by one, before the slots.
	Tenants []TenantMove
	// Batch is how many slots one move takes at most; DefaultBatch by default.
	Batch int
	// Parallel is how many moves are under way at once; 1 by default.
	Parallel int
	// Rate is how many moves begin a second at most; 0 means no limit.
	Rate float64
	// Retries is how often in a row a move is tried again that was aborted, or
	// refused for what may pass; DefaultRetries by default. Negative: not at all.
	Retries int
	// AcceptUnordered, Deadline and By are as in a [LiveMove].
	AcceptUnordered bool
	Deadline        time.Duration
	By              store.Author
	// Ended, if not nil, is told of each move that was prepared and has ended, in
	// whichever way. It is called from one goroutine at a time.
	Ended func(r Report, err error)
	// Progress, if not nil, is told how many tenants and slots are where they
	// are to go. It is called from one goroutine at a time.
	Progress func(done int)
}

func (c Campaign) withDefaults() Campaign {
	c.Batch, c.Parallel = cmp.Or(c.Batch, DefaultBatch), cmp.Or(c.Parallel, 1)
	c.Retries = cmp.Or(c.Retries, DefaultRetries)
	if c.Ended == nil {
		c.Ended = func(Report, error) {}
	}
	if c.Progress == nil {
		c.Progress = func(int) {}
	}
	return c
}

func (c Campaign) validate() error {
	switch {
	case c.Topic == "":
		return errors.New("Topic is empty")
	case c.Batch < 1:
		return fmt.Errorf("Batch is %d, must be at least 1", c.Batch)
	case c.Parallel < 1:
		return fmt.Errorf("Parallel is %d, must be at least 1", c.Parallel)
	case c.Rate < 0 || math.IsNaN(c.Rate):
		return fmt.Errorf("Rate is %v, must not be negative", c.Rate)
	}
	return nil
}

// Units is how many tenants and slots the campaign names.
func (c Campaign) Units() int { return len(c.Slots) + len(c.Tenants) }

// CampaignReport says what a campaign did.
type CampaignReport struct {
	// Units named, and of these Already where they go when it began, and Moved.
	Units, Already, Moved int
	// Moves that were switched, and tries that were Aborted.
	Moves, Aborted int
}

// Run makes the moves of a campaign. It returns when all are made, at the end of
// ctx, or at the first move that is refused for what will not pass by itself, or
// that failed too often. A move under way is then finished or aborted first. The
// report says what was done until then.
func (c *LiveCoordinator) Run(ctx context.Context, campaign Campaign) (CampaignReport, error) {
	campaign = campaign.withDefaults()
	if err := campaign.validate(); err != nil {
		return CampaignReport{}, fmt.Errorf("campaign: %w", err)
	}
	topic, ok := c.cfg.Table.Table().Topic(campaign.Topic)
	if !ok {
		return CampaignReport{}, fmt.Errorf("campaign: routing table has no topic %s", campaign.Topic)
	}
	r := &running{c: c, campaign: campaign}
	jobs, err := r.jobs(topic)
	if err != nil {
		return r.report, fmt.Errorf("campaign in topic %s: %w", campaign.Topic, err)
	}
	campaign.Progress(r.report.Already)
	group, working := errgroup.WithContext(ctx)
	group.SetLimit(campaign.Parallel)
	for _, job := range jobs {
		if working.Err() != nil {
			break
		}
		group.Go(func() error { return r.do(working, job) })
	}
	err = group.Wait()
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return r.report, fmt.Errorf("campaign in topic %s, %d of %d done: %w", campaign.Topic, r.report.Already+r.report.Moved, r.report.Units, err)
	}
	return r.report, nil
}

// running is a campaign at work.
type running struct {
	c        *LiveCoordinator
	campaign Campaign

	mu sync.Mutex
	// guards everything below, and is held while the campaign's functions are called
	report CampaignReport
	next   time.Time // when the rate lets the next move begin
}

// await waits until the rate lets one more move begin.
func (r *running) await(ctx context.Context) error {
	r.mu.Lock()
	at := time.Now()
	if r.next.After(at) {
		at = r.next
	}
	if r.campaign.Rate > 0 {
		r.next = at.Add(time.Duration(float64(time.Second) / r.campaign.Rate))
	}
	r.mu.Unlock()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Until(at)):
		return ctx.Err()
	}
}

// jobs are the moves that are left to make.
func (r *running) jobs(topic *routing.Topic) ([]LiveMove, error) {
	r.report.Units = r.campaign.Units()
	var jobs []LiveMove
	for _, t := range r.campaign.Tenants {
		m := r.move()
		m.Tenant, m.To, m.Spread = t.Tenant, t.To, t.Spread
		if r.isThere(topic, m) {
			r.report.Already++
			continue
		}
		jobs = append(jobs, m)
	}
	for slot, to := range r.campaign.Slots {
		if slot < 0 || slot >= topic.Slots() {
			return nil, refuse(fmt.Sprintf("the topic has no slot %d, it has 0 to %d", slot, topic.Slots()-1), "was the plan made for another table?")
		}
		if topic.SlotPartition(slot) == to {
			r.report.Already++
		}
	}
	left := slotMoves(topic, r.campaign.Slots)
	slices.SortStableFunc(left, func(a, b routing.SlotMove) int { return cmp.Compare(a.From, b.From) })
	for batch := range slices.Chunk(left, r.campaign.Batch) {
		m := r.move()
		m.Slots = map[int32]int32{}
		for _, s := range batch {
			m.Slots[s.Slot] = s.To
		}
		jobs = append(jobs, m)
	}
	return jobs, nil
}

func (r *running) move() LiveMove {
	return LiveMove{Topic: r.campaign.Topic, AcceptUnordered: r.campaign.AcceptUnordered, Deadline: r.campaign.Deadline, By: r.campaign.By}
}

// isThere tells whether a tenant is where it is to go.
func (r *running) isThere(topic *routing.Topic, m LiveMove) bool {
	route := topic.Lookup([]byte(m.Tenant), nil)
	return route.Topic == "" && slices.Equal(route.Partitions, m.To) && spreadOf(topic, m.Tenant) == m.Spread
}

// do makes one move, and tries again while that makes sense.
func (r *running) do(ctx context.Context, m LiveMove) error {
	pause := firstRetry
	for try := 0; ; try++ {
		if err := r.await(ctx); err != nil {
			return err
		}
		report, err := r.c.Move(ctx, m)
		if r.note(m, report, err) {
			return nil
		}
		if !again(err) || ctx.Err() != nil || try >= r.campaign.Retries {
			return err
		}
		r.c.cfg.Logger.Warn("the move is tried again", zap.Error(err), zap.Duration("pause", pause), zap.Int("try", try+1))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause + rand.N(pause/2)):
		}
		pause = min(2*pause, longestRetry)
	}
}

// again tells whether a move may succeed the next time: what was aborted, and
// what was refused for what may pass.
func again(err error) bool {
	refused, is := errors.AsType[*RefusedError](err)
	return !is || refused.Passing
}

// note takes a move's end, and tells whether its units are where they go.
func (r *running) note(m LiveMove, report Report, err error) (done bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil:
		r.report.Moves++
	case errors.Is(err, ErrSamePlace): // by another's move meanwhile
	case report.ID != "":
		r.report.Aborted++
	}
	if report.ID != "" {
		r.campaign.Ended(report, err)
	}
	if err != nil && !errors.Is(err, ErrSamePlace) {
		return false
	}
	r.report.Moved += max(1, len(m.Slots))
	r.campaign.Progress(r.report.Already + r.report.Moved)
	return true
}
