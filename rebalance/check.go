package rebalance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// ErrRefused is wrapped in a [*RefusedError].
var ErrRefused = errors.New("refused")

// RefusedError says why a move did not begin. Nothing was changed.
type RefusedError struct {
	// Reason is what is in the way, and Remedy what to do about it.
	Reason, Remedy string
	// Passing says that it may be over by itself, such as another move of the
	// same unit, so that trying again makes sense.
	Passing bool
	// Err is the cause, if there is one.
	Err error
}

func (e *RefusedError) Error() string {
	if e.Remedy == "" {
		return e.Reason
	}
	return e.Reason + ": " + e.Remedy
}

// Unwrap gives ErrRefused and the cause.
func (e *RefusedError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrRefused}
	}
	return []error{ErrRefused, e.Err}
}

// check finds out all that can be wrong before anybody waits.
func (l *liveMove) check(ctx context.Context) error {
	if l.move.Deadline < 0 || l.move.Deadline > 0 && l.move.Deadline < switchMargin/2 {
		return fmt.Errorf("Deadline is %v, must be at least %v", l.move.Deadline, switchMargin/2)
	}
	if err := l.c.abortOverdue(ctx, l.move.Topic); err != nil {
		return err
	}
	topic, err := l.mayMove(l.c.cfg.Table.Table())
	if err != nil {
		return err
	}
	from, to := l.homes(topic)
	l.report.From, l.report.To = from, to
	if err = l.c.checkTopic(ctx, l.move.Topic, from, to); err != nil {
		return err
	}
	if err = l.c.checkGroups(ctx, l.move.Topic, to); err != nil {
		return err
	}
	sessions, err := l.c.cfg.Table.Sessions(ctx)
	if err != nil {
		return err
	}
	for _, s := range sessions {
		if slices.Contains(s.Topics, l.move.Topic) {
			l.report.Sessions++
		}
	}
	if l.report.Sessions == 0 {
		l.log.Info("no producer is registered for the topic, nobody is waited for")
	}
	// Where the first move asked for these in its middle, producers would wait.
	if follower, ok := l.c.cfg.Table.(sessionFollower); ok {
		if err := follower.FollowSessions(ctx); err != nil {
			return err
		}
	}
	if _, _, err := l.c.client.ProducerID(ctx); err != nil {
		return fmt.Errorf("a producer id for fences: %w", err)
	}
	return nil
}

// sessionFollower is a LiveTable that follows sessions from when it is told to;
// store.Topic is one.
type sessionFollower interface {
	FollowSessions(ctx context.Context) error
}

// homes are the partitions that the unit leaves and those it goes to.
func (l *liveMove) homes(topic *routing.Topic) (from, to []int32) {
	if l.move.Tenant != "" {
		return slices.Clone(topic.Lookup([]byte(l.move.Tenant), nil).Partitions), slices.Clone(l.move.To)
	}
	for _, s := range slotMoves(topic, l.move.Slots) {
		from, to = append(from, s.From), append(to, s.To)
	}
	slices.Sort(from)
	slices.Sort(to)
	return slices.Compact(from), slices.Compact(to)
}

// mayMove tells why a table does not let the move begin.
func (l *liveMove) mayMove(table *routing.Table) (*routing.Topic, error) {
	topic, ok := table.Topic(l.move.Topic)
	if !ok {
		return nil, refuse(fmt.Sprintf("routing table revision %d has no topic %s", table.Revision(), l.move.Topic), "its topics are "+strings.Join(table.TopicNames(), ", "))
	}
	if !topic.Wrapped() && !l.move.AcceptUnordered {
		return nil, refuse("the topic's entry in the table does not say producers: wrapped, so there may be producers that a move cannot hold back",
			"set that, with tenantlane table set TOPIC --producers wrapped, once every producer is a partitioner.Producer, or stop the producers and move with --mode stopped, or give order up with --accept-unordered")
	}
	if l.move.Tenant == "" {
		if err := l.mayMoveSlots(topic); err != nil {
			return nil, err
		}
		return topic, probe(table, l.move.Topic, l.entry(topic, time.Time{}))
	}
	route := topic.Lookup([]byte(l.move.Tenant), nil)
	switch {
	case len(l.move.Slots) > 0:
		return nil, refuse("both a tenant and slots are given", "move them one after the other")
	case route.Topic != "":
		return nil, refuse(fmt.Sprintf("the tenant is placed in topic %s", route.Topic), "a move stays within one topic, move it there")
	case slices.Equal(route.Partitions, l.move.To) && spreadOf(topic, l.move.Tenant) == l.move.Spread:
		return nil, &RefusedError{Reason: fmt.Sprintf("the tenant is on partition %s already", routing.FormatPartitions(l.move.To)), Err: ErrSamePlace}
	}
	return topic, probe(table, l.move.Topic, l.entry(topic, time.Time{}))
}

func (l *liveMove) mayMoveSlots(topic *routing.Topic) error {
	if len(l.move.Slots) == 0 {
		return refuse("neither a tenant nor slots are given", "name one")
	}
	for _, slot := range slices.Sorted(maps.Keys(l.move.Slots)) {
		if slot < 0 || slot >= topic.Slots() {
			return refuse(fmt.Sprintf("the topic has no slot %d", slot), fmt.Sprintf("its slots are 0 to %d", topic.Slots()-1))
		}
		if to := l.move.Slots[slot]; to < 0 || to >= topic.Partitions() {
			return refuse(fmt.Sprintf("slot %d is to go to partition %d, and the table has 0 to %d", slot, to, topic.Partitions()-1), "let the topic grow first, with tenantlane topic grow")
		}
	}
	if len(slotMoves(topic, l.move.Slots)) == 0 {
		return &RefusedError{Reason: "every slot is where it is to go already", Err: ErrSamePlace}
	}
	return nil
}

func refuse(reason, remedy string) *RefusedError {
	return &RefusedError{Reason: reason, Remedy: remedy}
}

func spreadOf(topic *routing.Topic, tenant string) routing.Spread {
	place, ok := topic.Placement(tenant)
	if !ok || place.FollowSlot {
		return routing.SpreadNone
	}
	return place.Spread
}

// asRefusal makes a refusal of what a table refuses.
func asRefusal(err error) error {
	var content *routing.Error
	switch {
	case err == nil || errors.Is(err, ErrRefused):
		return err
	case errors.Is(err, routing.ErrMoving):
		reason := err.Error()
		if errors.As(err, &content) {
			reason = content.Msg // the field is that of a move that is not there
		}
		return &RefusedError{Reason: reason, Remedy: "see tenantlane move status", Passing: true, Err: err}
	case errors.As(err, &content):
		return &RefusedError{Reason: content.Msg, Err: err}
	}
	return err
}

// probe asks whether a table would take the move.
func probe(table *routing.Table, topic string, m routing.Move) error {
	m.ID, m.Deadline = "probe", time.Now().Add(time.Minute)
	_, err := table.Edit(routing.PrepareMove(topic, m))
	return asRefusal(err)
}

// checkTopic wants the partitions to be there and to have leaders, and the
// topic not to be compacted.
func (c *LiveCoordinator) checkTopic(ctx context.Context, topic string, from, to []int32) error {
	details, err := c.admin.ListTopics(ctx, topic)
	if err == nil {
		err = details.Error()
	}
	if err != nil {
		return fmt.Errorf("partitions of topic %s: %w", topic, err)
	}
	for _, p := range slices.Concat(from, to) {
		detail, ok := details[topic].Partitions[p]
		if !ok {
			return refuse(fmt.Sprintf("topic %s has %d partitions and none of number %d", topic, len(details[topic].Partitions), p),
				"let it grow with tenantlane topic grow")
		}
		if detail.Err != nil || detail.Leader < 0 {
			return &RefusedError{Reason: fmt.Sprintf("partition %d of topic %s has no leader", p, topic), Remedy: "wait until its broker is back", Passing: true, Err: detail.Err}
		}
	}
	return c.checkPolicy(ctx, topic)
}

// checkPolicy refuses a compacted topic: compaction can take away the records
// below a fence that a reader from the start needs to come first.
func (c *LiveCoordinator) checkPolicy(ctx context.Context, topic string) error {
	configs, err := c.admin.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return fmt.Errorf("cleanup.policy of topic %s: %w", topic, err)
	}
	config, err := configs.On(topic, nil)
	if err == nil {
		err = config.Err
	}
	if err != nil {
		return fmt.Errorf("cleanup.policy of topic %s, which a move must see: %w", topic, err)
	}
	for _, entry := range config.Configs {
		if entry.Key == "cleanup.policy" && entry.Value != nil && strings.Contains(*entry.Value, "compact") {
			return refuse(fmt.Sprintf("topic %s is compacted, and its newest record of a key need not be the last one of its tenant across a move", topic),
				"stop the producers and move with --mode stopped")
		}
	}
	return nil
}
