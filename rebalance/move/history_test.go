package move

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

var histories = flag.Int("histories", 600, "random histories that TestHistories replays, each from several starts")

// history is a topic whose moves are over: logs, and the table.
type history struct {
	rng    *rand.Rand
	table  *routing.Table
	logs   [6][]past
	order  []int32 // the partitions of all records and fences, as they were written
	moves  int
	seq    [2][2]int // by tenant and producer
	events []string
}

// past is a record of a history: of a tenant, or a fence.
type past struct {
	tenant, producer, seq int
	key                   byte
	header                routing.RouteHeader
	control               *routing.Control
	stale                 bool // written behind a fence by a producer that was stopped
}

var (
	pastTenants = []string{"t", "u"}
	pastKeys    = "kl"
)

// newHistory makes a history of some moves of a tenant, its slot, and between
// spread and not, with records before, between and after, and stale ones.
func newHistory(seed uint64) *history {
	h := &history{rng: rand.New(rand.NewPCG(seed, 1))}
	base, err := routing.NewTable(routing.Spec{Revision: 1, Topics: map[string]routing.TopicSpec{topicName: {
		Partitions: int32(len(h.logs)), Slots: 1, Shared: []int32{0}, Wrapped: true,
		TenantOf: routing.TenantRule{From: routing.FromHeader, Arg: "tenant"},
	}}})
	if err != nil {
		panic(err)
	}
	h.table = base
	old := []*routing.Table{base}
	for range 1 + h.rng.IntN(5) {
		h.produce(h.table, h.rng.IntN(4), false)
		h.move()
		old = append(old, h.table)
		if h.rng.IntN(2) == 0 {
			h.produce(old[h.rng.IntN(len(old)-1)], 1, true)
		}
	}
	h.produce(h.table, 1+h.rng.IntN(4), false)
	return h
}

func (h *history) topic() *routing.Topic {
	topic, _ := h.table.Topic(topicName)
	return topic
}

// produce writes records by a table: the present one, or an old one, which a
// producer that was stopped before later moves still has.
func (h *history) produce(by *routing.Table, n int, late bool) {
	for range n {
		r := past{tenant: h.rng.IntN(2), producer: h.rng.IntN(2), key: pastKeys[h.rng.IntN(2)]}
		topic, _ := by.Topic(topicName)
		route := topic.Lookup([]byte(pastTenants[r.tenant]), []byte{r.key})
		now := h.topic().Lookup([]byte(pastTenants[r.tenant]), []byte{r.key})
		if late && (route.Epoch == now.Epoch || route.Partition < 0) {
			continue // that is no old home
		}
		r.header = routing.RouteHeader{Kind: route.Kind, Epoch: route.Epoch}
		r.stale = late
		if !late {
			h.seq[r.tenant][r.producer]++
			r.seq = h.seq[r.tenant][r.producer]
		}
		h.write(route.Partition, r)
		h.events = append(h.events, fmt.Sprintf("%s seq %d epoch %d %s in %d late %v", pastTenants[r.tenant], r.seq, route.Epoch, route.Kind, route.Partition, late))
	}
}

func (h *history) write(partition int32, r past) {
	h.logs[partition] = append(h.logs[partition], r)
	h.order = append(h.order, partition)
}

// move moves the slot or a tenant, with all steps of the table. Some attempts
// are aborted after their fence.
func (h *history) move() {
	for range 10 {
		m := h.propose()
		id := fmt.Sprint("m", h.moves)
		m.ID, m.Deadline = id, time.Unix(30, 0)
		open, err := h.table.Edit(routing.PrepareMove(topicName, m))
		if err != nil {
			continue // to where it is
		}
		h.moves++
		topic, _ := open.Topic(topicName)
		prepared, _ := topic.Move(id)
		end := routing.AbortMove(topicName, id)
		fences := h.fence(prepared)
		if h.rng.IntN(5) > 0 {
			end = routing.SwitchMove(topicName, id, fences)
		}
		if h.table, err = open.Edit(end); err != nil {
			panic(err)
		}
		h.events = append(h.events, fmt.Sprintf("%s from %v to %v, fences %v", prepared, prepared.From, prepared.To, fences))
		return
	}
}

func (h *history) propose() routing.Move {
	partition := func() int32 { return int32(h.rng.IntN(len(h.logs))) }
	tenant := pastTenants[h.rng.IntN(2)]
	switch h.rng.IntN(4) {
	case 0:
		return routing.Move{Slots: []routing.SlotMove{{Slot: 0, From: h.topic().SlotPartition(0), To: partition()}}}
	case 1:
		return routing.Move{Tenant: tenant, To: []int32{4, 5}, ToSpread: routing.SpreadKey}
	default:
		return routing.Move{Tenant: tenant, To: []int32{partition()}}
	}
}

func (h *history) fence(m *routing.Move) (fences []routing.Fence) {
	for _, p := range slices.Sorted(slices.Values(m.From)) {
		fences = append(fences, routing.Fence{Partition: p, Offset: int64(len(h.logs[p]))})
		h.write(p, past{control: &routing.Control{
			Kind: routing.ControlFence, Move: m.ID, Unit: m.Unit(), Epoch: m.Epoch,
		}})
	}
	return fences
}

// lane is the name of a record's lane, by its own kind.
func (r *past) lane() uint32 {
	if r.header.Kind == routing.KindSpreadKey {
		return uint32(r.tenant)<<8 | uint32(r.key)
	}
	return uint32(r.tenant)<<8 | 1
}

// TestHistories replays random histories of many moves, from random starts and
// with random crashes, and counts how many orders break.
func TestHistories(t *testing.T) {
	const starts = 5
	broken, moves := 0, 0
	for seed := range uint64(*histories) {
		h := newHistory(seed)
		moves += h.moves
		for start := range uint64(starts) {
			if err := h.replay(seed*starts+start, func(homes []Home) []Home { return homes }); err != nil {
				if broken++; broken <= 3 {
					t.Errorf("history %d, start %d: %v\n%q", seed, start, err, h.events)
				}
			}
		}
	}
	t.Logf("%d histories of %d moves, each from %d starts: %d broken orders", *histories, moves, starts, broken)
}

// TestHistoriesFromEveryStart replays random histories from every instant at
// which a new group may have begun at the logs' ends, between any two writes, and
// from every position of each partition whose records of before may be done while
// nothing of the others is.
func TestHistoriesFromEveryStart(t *testing.T) {
	all := func(homes []Home) []Home { return homes }
	starts, broken := 0, 0
	for seed := range uint64(*histories) {
		h := newHistory(seed)
		from := func(what string, start func(*replay) bool) (allowed bool) {
			r := h.newReplay(uint64(starts), all)
			if !start(r) {
				return false
			}
			starts++
			if err := r.toTheEnd(); err != nil {
				if broken++; broken <= 3 {
					t.Errorf("history %d, %s: %v\n%q", seed, what, err, h.events)
				}
			}
			return true
		}
		var ends [6]int
		for i := range len(h.order) + 1 {
			from(fmt.Sprintf("from the ends after write %d, %v", i, ends), func(r *replay) bool { r.skipTo(ends); return true })
			if i < len(h.order) {
				ends[h.order[i]]++
			}
		}
		for p := range h.logs {
			for n := 1; n <= len(h.logs[p]); n++ {
				if !from(fmt.Sprintf("from %d of partition %d", n, p), func(r *replay) bool { return r.doTo(p, n) }) {
					break // nor may more of it be
				}
			}
		}
	}
	t.Logf("%d histories from %d starts: %d broken orders", *histories, starts, broken)
}

// TestHistoriesNeedEveryEarlierHome sees that the replay finds what a weaker
// rule breaks.
func TestHistoriesNeedEveryEarlierHome(t *testing.T) {
	for name, homes := range map[string]func([]Home) []Home{
		"only the last": func(homes []Home) []Home { return homes[max(0, len(homes)-1):] },
		"none":          func([]Home) []Home { return nil },
		"as if nothing was keyed anew": func(homes []Home) []Home {
			for i := range homes {
				homes[i].Rekeyed = false
			}
			return homes
		},
	} {
		broken := 0
		for seed := range uint64(400) {
			if newHistory(seed).replay(seed, homes) != nil {
				broken++
			}
		}
		if broken == 0 {
			t.Errorf("%s: nothing breaks", name)
		}
		t.Logf("%s: %d of 400 histories break", name, broken)
	}
}
