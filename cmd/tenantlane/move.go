package main

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
	"github.com/tenantlane/tenantlane/rebalance"
	"github.com/tenantlane/tenantlane/rebalance/plan/picture"
)

func newMoveCommand(e *env) *cobra.Command {
	return group("move", "Move tenants and slots without breaking their order",
		newMoveStartCommand(e), newMoveStatusCommand(e), newMoveAbortCommand(e), newMoveRunCommand(e))
}

// The states of a move, as its JSON has them.
const (
	statePrepared = "PREPARED"
	stateSwitched = "SWITCHED"
	stateAborted  = "ABORTED"
	stateUnknown  = "UNKNOWN"
)

// moveJSON is a move.
type moveJSON struct {
	Move       string         `json:"move"`
	State      string         `json:"state"`
	Mode       string         `json:"mode"`
	Topic      string         `json:"topic"`
	Tenant     string         `json:"tenant,omitempty"`
	TenantHex  string         `json:"tenant_hex,omitempty"`
	Slot       *int32         `json:"slot,omitempty"`  // of a move of one slot
	Slots      []slotMoveJSON `json:"slots,omitempty"` // of a move of slots
	From       []int32        `json:"from"`
	To         []int32        `json:"to"`
	Fence      []fenceJSON    `json:"fence"`
	PauseMS    float64        `json:"pause_ms"`
	Epoch      uint64         `json:"epoch,omitempty"`
	Revision   uint64         `json:"revision"`
	WaitingFor []string       `json:"waiting_for"`
	WaitedFor  []waitJSON     `json:"waited_for,omitempty"`
}

type fenceJSON struct {
	Partition int32 `json:"partition"`
	Offset    int64 `json:"offset"`
}

// waitJSON is a producer that a move waited for.
type waitJSON struct {
	Producer string  `json:"producer"`
	MS       float64 `json:"ms"`
	Over     bool    `json:"lease_over,omitempty"`
}

// toMoveJSON is what a coordinator says of a move that has ended.
func toMoveJSON(r *rebalance.Report) moveJSON {
	m := moveJSON{
		Move: r.ID, State: stateAborted, Mode: r.Mode, Topic: r.Topic, From: r.From, To: r.To, Fence: toFenceJSON(r.Fences),
		PauseMS: milliseconds(r.Pause), Epoch: r.Epoch, Revision: r.Revision, WaitingFor: []string{},
	}
	switch r.State {
	case rebalance.StateDone:
		m.State = stateSwitched
	case rebalance.StateUnknown:
		m.State = stateUnknown
	case rebalance.StateAborted:
	}
	m.unit(r.Tenant, r.Slots)
	for _, w := range r.Waits {
		m.WaitedFor = append(m.WaitedFor, waitJSON{w.String(), milliseconds(w.For), w.Over})
		if w.Left {
			m.WaitingFor = append(m.WaitingFor, w.String())
		}
	}
	return m
}

// unit names what moves.
func (m *moveJSON) unit(tenant string, slots []routing.SlotMove) {
	if tenant != "" {
		m.Tenant, _ = tenantText([]byte(tenant))
		m.TenantHex = hex.EncodeToString([]byte(tenant))
	}
	for _, s := range slots {
		m.Slots = append(m.Slots, slotMoveJSON{s.Slot, s.From, s.To})
	}
	if len(slots) == 1 {
		m.Slot = &slots[0].Slot
	}
}

func toFenceJSON(fences []routing.Fence) []fenceJSON {
	list := []fenceJSON{}
	for _, f := range fences {
		list = append(list, fenceJSON{f.Partition, f.Offset})
	}
	return list
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// what names the unit for people.
func (m *moveJSON) what() string {
	switch {
	case m.TenantHex != "":
		name, err := hex.DecodeString(m.TenantHex)
		if err != nil {
			return m.Tenant
		}
		return picture.Tenant(string(name))
	case m.Slot != nil:
		return fmt.Sprintf("slot %d", *m.Slot)
	}
	return fmt.Sprintf("%d slots", len(m.Slots))
}

// way is where it goes, for people.
func (m *moveJSON) way() string {
	return fmt.Sprintf("from partition %s to %s", routing.FormatPartitions(m.From), routing.FormatPartitions(m.To))
}

// fences are where the unit ended, for people.
func (m *moveJSON) fences() string {
	var parts []string
	for _, f := range m.Fence {
		parts = append(parts, fmt.Sprintf("%d/%d", f.Partition, f.Offset))
	}
	return strings.Join(parts, ", ")
}

// pause is how long its records waited, for people.
func (m *moveJSON) pause() time.Duration {
	return time.Duration(m.PauseMS * float64(time.Millisecond)).Round(time.Millisecond)
}

// liveFlags are what a command needs that works on live moves.
type liveFlags struct {
	table tableFlags
	kafka kafkaFlags
	logs  logFlags
	by    store.Author
}

// register adds the flags; level is of the logs.
func (f *liveFlags) register(flags *pflag.FlagSet, level string) {
	f.table.registerTopic(flags, &f.kafka)
	f.kafka.register(flags)
	f.logs.register(flags, level)
	flags.StringVar(&f.by.Actor, "actor", "", "who does it, for the table's history (default: the user)")
	flags.StringVar(&f.by.Reason, "reason", "", "why, for the table's history")
}

// liveMoves is a table in a topic, and a coordinator that moves by it.
type liveMoves struct {
	*rebalance.LiveCoordinator

	table topicStore
	end   context.CancelFunc
}

// errFileMove is why nothing moves live by a file.
func errFileMove(file string) error {
	return usagef("--table %s: a file does not know who produces, so nothing moves live by it: put the table into a topic (`tenantlane table push FILE --table-topic NAME --create`), or stop the tenant's producers and use `tenantlane move start --mode stopped`", file)
}

// openLive opens the table in its topic and makes a coordinator. The caller
// closes it.
func openLive(ctx context.Context, table *tableFlags, log *zap.Logger) (*liveMoves, error) {
	// A move that is interrupted is aborted in the table.
	life, opened, end := outliving(ctx)
	tables, err := table.openTopic(life, zap.NewNop(), opening{})
	if err != nil {
		end()
		return nil, cmp.Or(ctx.Err(), err)
	}
	opened()
	opts, err := table.kafka.opts()
	if err != nil {
		end()
		return nil, errors.Join(err, tables.Close())
	}
	c, err := rebalance.NewLiveCoordinator(rebalance.LiveConfig{KafkaOpts: opts, Table: tables, Logger: log})
	if err != nil {
		end()
		return nil, errors.Join(usagef("%w", err), tables.Close())
	}
	return &liveMoves{c, tables, end}, nil
}

func (l *liveMoves) close() error {
	defer l.end()
	l.Close()
	return l.table.Close()
}

// prune forgets moves of which nothing is left. It is housekeeping: what keeps
// it from working will show elsewhere.
func (l *liveMoves) prune(ctx context.Context, e *env, topic string) {
	if _, err := l.Prune(ctx, topic); err != nil && ctx.Err() == nil {
		e.note("old moves stay in the table for now: %v", err)
	}
}

// liveMoveError says how a command ends by a move's error: a refusal and an abort are
// the answer "no", unless Kafka is what is wrong.
func liveMoveError(r *rebalance.Report, err error) error {
	var broker *kerr.Error
	var dial *net.OpError
	switch {
	case err == nil || errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, rebalance.ErrRefused), errors.Is(err, routing.ErrMoveNotOpen):
		return answerNo("%w", err)
	case r != nil && r.State == rebalance.StateUnknown, errors.As(err, &broker), errors.As(err, &dial),
		errors.Is(err, store.ErrFenced), errors.Is(err, store.ErrUnconfirmed), errors.Is(err, store.ErrTopicPolicy):
		return kafkaError("move", err)
	}
	return answerNo("%w", err)
}
