package routing

import (
	"fmt"
	"maps"
	"slices"
)

// Edit is one change of a table; see Table.Edit.
type Edit func(*draft) error

// draft is a table while it is edited: parts of the topics that edits touched.
type draft struct {
	from    *Table
	touched map[string]*parts
	removed map[string]bool
}

// Edit gives the table with all edits applied in order and the revision raised
// by one. Each edit that changes where records go takes the topic's next epoch.
// The result is checked like any table; an error leaves nothing half done,
// since t never changes.
func (t *Table) Edit(edits ...Edit) (*Table, error) {
	d := &draft{from: t, touched: map[string]*parts{}, removed: map[string]bool{}}
	for _, edit := range edits {
		if err := edit(d); err != nil {
			return nil, err
		}
	}
	return d.compile(t.revision + 1)
}

func (d *draft) compile(revision uint64) (*Table, error) {
	topics := make(map[string]*Topic, len(d.from.topics)+len(d.touched))
	maps.Copy(topics, d.from.topics)
	for name := range d.removed {
		delete(topics, name)
	}
	for _, name := range slices.Sorted(maps.Keys(d.touched)) {
		topic, err := compile(*d.touched[name])
		if err != nil {
			return nil, err
		}
		topics[name] = topic
	}
	return assemble(revision, topics)
}

// topic gives the parts of a topic for changing.
func (d *draft) topic(name string) (*parts, error) {
	if p, ok := d.touched[name]; ok {
		return p, nil
	}
	topic, ok := d.from.topics[name]
	if !ok || d.removed[name] {
		return nil, fault("the table has no such topic", "topics", name)
	}
	p := topic.parts
	p.placed, p.tiered = slices.Clone(p.placed), slices.Clone(p.tiered)
	p.overrides, p.tiers = maps.Clone(p.overrides), maps.Clone(p.tiers)
	d.touched[name] = &p
	return &p, nil
}

func (p *parts) nextEpoch() uint64 {
	p.epoch++
	return p.epoch
}

// onTopic is an edit of one topic's parts.
func onTopic(name string, change func(*parts) error) Edit {
	return func(d *draft) error {
		p, err := d.topic(name)
		if err != nil {
			return err
		}
		return under(change(p), "topics", name)
	}
}

// SetPlacement gives a tenant its own entry. The epoch is the topic's next,
// whatever p says, unless p sends the records where they went by the tenant's
// present entry: then only the tier changes and the epoch stays. ErrMoving while a
// move of the tenant or its slot is open.
func SetPlacement(topic, tenant string, p Placement) Edit {
	return onTopic(topic, func(parts *parts) error {
		place := p.clone()
		i, found := findEntry(parts.placed, tenant)
		if found && parts.placed[i].place.sameHome(place) {
			place.Epoch = parts.placed[i].place.Epoch
		} else if err := parts.settled(tenant); err != nil {
			return under(err, "placements", tenant)
		} else {
			place.Epoch = parts.nextEpoch()
		}
		parts.placed = setEntry(parts.placed, newEntry(parts.hash, tenant, place))
		if place.Tier != "" {
			parts.tiered = removeEntry(parts.tiered, tenant)
		}
		return nil
	})
}

// sameHome tells whether two placements send records to the same place.
func (p Placement) sameHome(q Placement) bool {
	return slices.Equal(p.Partitions, q.Partitions) && p.Spread == q.Spread && p.Topic == q.Topic && p.FollowSlot == q.FollowSlot
}

// UnsetPlacement makes a tenant follow its slot from the topic's next epoch on.
// The entry stays and says so, keeping the tenant's tier: a record of an older
// epoch must stay recognizable as older. ErrMoving while a move of the tenant or
// its slot is open.
func UnsetPlacement(topic, tenant string) Edit {
	return onTopic(topic, func(parts *parts) error {
		i, found := findEntry(parts.placed, tenant)
		if !found || parts.placed[i].place.FollowSlot {
			return fault("the tenant has no placement to take away", "placements", tenant)
		}
		if err := parts.settled(tenant); err != nil {
			return under(err, "placements", tenant)
		}
		place := Placement{FollowSlot: true, Tier: parts.placed[i].place.Tier, Epoch: parts.nextEpoch()}
		parts.placed = setEntry(parts.placed, newEntry(parts.hash, tenant, place))
		return nil
	})
}

// ForgetTenant removes every trace of a tenant from a topic, its epoch too. It
// is for tenants without records: use UnsetPlacement for any other. Where all
// producers are wrapped, a placed tenant must follow its slot first, so that its
// records since then can be told from those before. ErrMoving while a move of the
// tenant or its slot is open; moves of before stay.
func ForgetTenant(topic, tenant string) Edit {
	return onTopic(topic, func(parts *parts) error {
		if i, found := findEntry(parts.placed, tenant); found && parts.wrapped && !parts.placed[i].place.FollowSlot {
			return fault("the tenant is placed: take the placement away first, and forget it when no record of before is left", "placements", tenant)
		}
		if err := parts.settled(tenant); err != nil {
			return under(err, "placements", tenant)
		}
		before := len(parts.placed) + len(parts.tiered)
		parts.placed, parts.tiered = removeEntry(parts.placed, tenant), removeEntry(parts.tiered, tenant)
		if len(parts.placed)+len(parts.tiered) == before {
			return fault("the table says nothing of this tenant", "tenants", tenant)
		}
		return nil
	})
}

// SetSlots sends slots to partitions, all with the topic's next epoch. A slot
// that already goes there keeps its epoch. ErrMoving while a move of a slot, or of
// a tenant in it, is open.
func SetSlots(topic string, to map[int32]int32) Edit {
	return onTopic(topic, func(parts *parts) error {
		moved := map[int32]int32{}
		for slot, partition := range to {
			if slot < 0 || slot >= parts.slots || parts.slotHome(slot) != partition {
				moved[slot] = partition
			}
		}
		if len(moved) == 0 {
			return nil
		}
		if err := parts.settledSlots(moved); err != nil {
			return under(err, "slot_overrides")
		}
		epoch := parts.nextEpoch()
		for slot, partition := range moved {
			parts.overrides = put(parts.overrides, slot, SlotPlacement{Partition: partition, Epoch: epoch})
		}
		return nil
	})
}

// slotHome is where a slot's records go.
func (p *parts) slotHome(slot int32) int32 {
	if o, ok := p.overrides[slot]; ok {
		return o.Partition
	}
	return p.shared[int(slot)%len(p.shared)]
}

// Grow raises a topic's partitions. Nothing moves: the shared partitions stay
// what they were.
func Grow(topic string, partitions int32) Edit {
	return onTopic(topic, func(parts *parts) error {
		if partitions < parts.partitions {
			return fault(fmt.Sprintf("cannot shrink from %d to %d", parts.partitions, partitions), "partitions")
		}
		parts.partitions = partitions
		return nil
	})
}

// SetProducers says whether all producers of a topic use partitioner.Producer.
// ErrMoving while a move is open, which counts on it.
func SetProducers(topic string, wrapped bool) Edit {
	return onTopic(topic, func(parts *parts) error {
		if open := parts.moves.firstOpen(); open != nil && wrapped != parts.wrapped {
			return under(moving(open), "producers")
		}
		parts.wrapped = wrapped
		return nil
	})
}

// SetTier adds or changes a tier.
func SetTier(topic, name string, tier Tier) Edit {
	return onTopic(topic, func(parts *parts) error {
		if parts.tiers == nil {
			parts.tiers = map[string]Tier{}
		}
		parts.tiers[name] = tier.withDefaults(name)
		return nil
	})
}

// RemoveTier removes a tier that no tenant has any more.
func RemoveTier(topic, name string) Edit {
	return onTopic(topic, func(parts *parts) error {
		if _, ok := parts.tiers[name]; !ok {
			return fault("the topic has no such tier", "tiers", name)
		}
		delete(parts.tiers, name)
		return nil
	})
}

// SetTenantTier puts a tenant into a tier, or with an empty name back into the
// standard one. It changes no route and so no epoch.
func SetTenantTier(topic, tenant, tier string) Edit {
	return onTopic(topic, func(parts *parts) error {
		if i, found := findEntry(parts.placed, tenant); found {
			place := parts.placed[i].place
			place.Tier = tier
			parts.placed = setEntry(parts.placed, newEntry(parts.hash, tenant, place))
			return nil
		}
		if tier == "" {
			parts.tiered = removeEntry(parts.tiered, tenant)
			return nil
		}
		parts.tiered = setEntry(parts.tiered, newEntry(parts.hash, tenant, Placement{Tier: tier}))
		return nil
	})
}

// SetTopic adds a topic, or replaces all that the table says of it, epochs
// included; Rebase keeps epochs.
func SetTopic(name string, spec TopicSpec) Edit {
	return func(d *draft) error {
		p := partsOf(name, spec)
		d.touched[name] = &p
		delete(d.removed, name)
		return nil
	}
}

// RemoveTopic removes a topic: its records then go where clients send those of
// any topic outside the table. ErrMoving while a move is open.
func RemoveTopic(name string) Edit {
	return func(d *draft) error {
		p, err := d.topic(name)
		if err != nil {
			return err
		}
		if open := p.moves.firstOpen(); open != nil {
			return under(moving(open), "topics", name)
		}
		delete(d.touched, name)
		d.removed[name] = true
		return nil
	}
}

// setEntry replaces or inserts an entry. The slice is the draft's own.
func setEntry(entries []*entry, e *entry) []*entry {
	i, found := findEntry(entries, e.tenant)
	if found {
		entries[i] = e
		return entries
	}
	return slices.Insert(entries, i, e)
}

func removeEntry(entries []*entry, tenant string) []*entry {
	if i, found := findEntry(entries, tenant); found {
		return slices.Delete(entries, i, i+1)
	}
	return entries
}
