package plan

import (
	"fmt"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// GrowthConfig says which growth to compare.
type GrowthConfig struct {
	// From and To are partition counts: From above 0, To at least From, since a
	// topic cannot lose partitions. Current may have something on the new ones,
	// as it does when a growth was planned and made in part.
	From, To int32
	// Hash of the keys; the zero value is xxhash64.
	Hash routing.Hash
	// Slots of a new table. Default 4096.
	Slots int32
	// Current is where slots and placements are; nil: modulo over From partitions.
	Current *Layout
	// ByVolume balances slots by the volume in them, else by their number.
	ByVolume bool
}

func (c GrowthConfig) withDefaults() GrowthConfig {
	if c.Slots == 0 {
		c.Slots = 4096
	}
	if c.Current == nil && c.From > 0 && c.Slots > 0 {
		l := ModuloLayout(c.Slots, span(0, c.From))
		c.Current = &l
	}
	return c
}

func (c GrowthConfig) validate() error {
	switch {
	case c.From < 1:
		return fmt.Errorf("plan: From is %d, must be at least 1", c.From)
	case c.To < c.From:
		return fmt.Errorf("plan: To is %d, must be at least From, %d: a topic cannot lose partitions", c.To, c.From)
	case c.Slots < 1:
		return fmt.Errorf("plan: Slots is %d, must be at least 1", c.Slots)
	}
	return c.Current.validate(c.To) // not From: some slots may have moved already
}

// Moved is what a growth moves under one strategy.
type Moved struct {
	Strategy string
	// Keys moved, out of Of.
	Keys, Of int
	// Volume moved, as a share of all volume, 0 to 1.
	Volume float64
}

// GrowthReport is the answer of Growth.
type GrowthReport struct {
	// Strategies in the order modulo, jump, ring, rendezvous, slots.
	Strategies []Moved
	// Balance is the slot moves of the slots strategy and what they reach.
	Balance Balanced
}

// Growth compares what going from From to To partitions moves under each
// strategy, and lists the slot moves that reach balance.
func Growth(keys []Volume, c GrowthConfig) (GrowthReport, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return GrowthReport{}, err
	}
	makers := []struct {
		name string
		make func(routing.Hash, int) NodeFunc
	}{{"modulo", Modulo}, {"jump", Jump}, {"ring", Ring}, {"rendezvous", Rendezvous}}
	var r GrowthReport
	for _, m := range makers {
		before, after := m.make(c.Hash, int(c.From)), m.make(c.Hash, int(c.To))
		r.Strategies = append(r.Strategies, moved(m.name, keys, func(tenant string) bool {
			return before([]byte(tenant)) != after([]byte(tenant))
		}))
	}
	r.Balance = balanceGrowth(keys, c)
	r.Strategies = append(r.Strategies, moved("slots", keys, c.movedBy(r.Balance.Moves)))
	return r, nil
}

func moved(strategy string, keys []Volume, moves func(tenant string) bool) Moved {
	m := Moved{Strategy: strategy, Of: len(keys)}
	var volume float64
	for _, k := range keys {
		if moves(k.Tenant) {
			m.Keys++
			volume += k.Volume
		}
	}
	if sum := total(keys); sum > 0 {
		m.Volume = volume / sum
	}
	return m
}

// movedBy says for a tenant whether it follows one of the moved slots.
func (c GrowthConfig) movedBy(moves []SlotMove) func(tenant string) bool {
	away := map[int32]bool{}
	for _, m := range moves {
		away[m.Slot] = true
	}
	return func(tenant string) bool {
		_, placed := c.Current.Placements[tenant]
		return !placed && away[slotOf(c.Hash, tenant, int32(len(c.Current.Slots)))]
	}
}

// balanceGrowth moves slots onto the new partitions, beside those that hold
// slots now; a whale's own partition gets none.
func balanceGrowth(keys []Volume, c GrowthConfig) Balanced {
	b := BalanceConfig{Slots: c.Current.Slots, Into: distinct(append(distinct(c.Current.Slots), span(c.From, c.To)...))}
	if c.ByVolume {
		b.Volumes, b.Fixed = c.Current.split(keys, c.Hash, c.To)
	}
	return BalanceSlots(b)
}
