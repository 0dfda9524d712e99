package routing

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// replay applies a transaction's entries to the draft as they are: epochs and
// all were decided by their writer. Each key comes once.
func (d *draft) replay(changes map[string]change) error {
	byTopic := map[string][]change{}
	for _, c := range changes {
		if c.err != nil {
			return c.err
		}
		if c.name.topic != "" { // else it is of an unknown kind
			byTopic[c.name.topic] = append(byTopic[c.name.topic], c)
		}
	}
	for _, topic := range slices.Sorted(maps.Keys(byTopic)) {
		if err := d.replayTopic(topic, byTopic[topic]); err != nil {
			return under(err, "topics", topic)
		}
	}
	return nil
}

func (d *draft) replayTopic(topic string, changes []change) error {
	var settings *parts
	for _, c := range changes {
		if c.name.kind != kindTopic {
			continue
		}
		if settings, _ = c.content.(*parts); settings == nil {
			d.removed[topic] = true
			return allRemoved(changes)
		}
	}
	p, err := d.topic(topic)
	switch {
	case err != nil && settings == nil: // the cleaner may take a topic's removal before those of its entries
		return allRemoved(changes)
	case err != nil:
		fresh := *settings
		p = &fresh
		d.touched[topic] = p
	case settings != nil:
		p.adopt(settings)
	}
	p.replay(changes)
	return nil
}

// allRemoved holds a topic that is not in the table to having no entries, which
// would come to life with the next topic of that name.
func allRemoved(changes []change) error {
	for _, c := range changes {
		if c.content != nil {
			return fault("an entry of a topic that the table does not have", string(c.name.kind)+"s", c.name.rest)
		}
	}
	return nil
}

// adopt takes the settings of a record and keeps the entries. Where the hash
// changed, which only a topic without records may do, the entries' sums follow.
func (p *parts) adopt(settings *parts) {
	rehash := p.hash != settings.hash
	kept := *p
	*p = *settings
	p.overrides, p.placed, p.tiers, p.tiered, p.moves = kept.overrides, kept.placed, kept.tiers, kept.tiered, kept.moves
	if !rehash {
		return
	}
	for _, entries := range [][]*entry{p.placed, p.tiered} {
		for i, e := range entries {
			entries[i] = newEntry(p.hash, e.tenant, e.place)
		}
	}
}

// replay applies all changes of a topic's entries.
func (p *parts) replay(changes []change) {
	var placed, tiered []entryChange
	moves := map[string]*Move{}
	for _, c := range changes {
		tenant := c.name.rest
		switch content := c.content.(type) {
		case Placement:
			placed = append(placed, entryChange{tenant, newEntry(p.hash, tenant, content)})
		case TenantSpec:
			tiered = append(tiered, entryChange{tenant, newEntry(p.hash, tenant, Placement{Tier: content.Tier})})
		case SlotPlacement:
			p.overrides = put(p.overrides, c.slot, content)
		case Tier:
			p.tiers = put(p.tiers, tenant, content)
		case *Move:
			moves[content.ID] = content
		case nil:
			placed, tiered = p.remove(c, placed, tiered)
			if c.name.kind == kindMove {
				moves[c.name.rest] = nil
			}
		}
	}
	p.placed, p.tiered = merge(p.placed, placed), merge(p.tiered, tiered)
	p.moves = p.moves.with(moves)
}

func put[K comparable, V any](m map[K]V, key K, value V) map[K]V {
	if m == nil {
		m = map[K]V{}
	}
	m[key] = value
	return m
}

func (p *parts) remove(c change, placed, tiered []entryChange) (_, _ []entryChange) {
	switch c.name.kind {
	case kindPlacement:
		placed = append(placed, entryChange{tenant: c.name.rest})
	case kindTenant:
		tiered = append(tiered, entryChange{tenant: c.name.rest})
	case kindSlot:
		delete(p.overrides, c.slot)
	case kindTier:
		delete(p.tiers, c.name.rest)
	case kindMove: // put in at once with the others
	case kindTopic, kindVersion, kindSession: // no entries of a topic
	}
	return placed, tiered
}

// entryChange is a tenant's new entry, or nil where it has none any more.
type entryChange struct {
	tenant string
	entry  *entry
}

// merge gives the sorted entries with changes put in or taken out.
func merge(entries []*entry, changes []entryChange) []*entry {
	if len(changes) == 0 {
		return entries
	}
	slices.SortFunc(changes, func(a, b entryChange) int { return strings.Compare(a.tenant, b.tenant) })
	merged := make([]*entry, 0, len(entries)+len(changes))
	for _, c := range changes {
		i, found := findEntry(entries, c.tenant)
		merged = append(merged, entries[:i]...)
		if found {
			i++
		}
		entries = entries[i:]
		if c.entry != nil {
			merged = append(merged, c.entry)
		}
	}
	return append(merged, entries...)
}

// differences gives the records that turn table a into table b, in the order
// of their topics.
func differences(a, b *Table) []Record {
	names := slices.Concat(a.names, b.names)
	slices.Sort(names)
	var records []Record
	for _, name := range slices.Compact(names) {
		from, to := a.topics[name], b.topics[name]
		if from == to {
			continue
		}
		records = append(records, topicDifferences(name, from, to)...)
	}
	return records
}

func topicDifferences(topic string, from, to *Topic) []Record {
	var a, b parts
	if from != nil {
		a = from.parts
	}
	if to != nil {
		b = to.parts
	}
	var records []Record
	switch {
	case to == nil:
		records = append(records, Record{Key: name{kind: kindTopic, topic: topic}.key()})
	case from == nil || !slices.Equal(a.topicRecord().Value, b.topicRecord().Value):
		records = append(records, b.topicRecord())
	}
	records = mapDifferences(records, a.tiers, b.tiers,
		func(tier string) name { return name{kindTier, topic, tier} }, b.tierRecord)
	records = mapDifferences(records, a.overrides, b.overrides,
		func(slot int32) name { return (&parts{name: topic}).slotName(slot) }, b.slotRecord)
	records = entryDifferences(records, a.placed, b.placed,
		func(tenant string) name { return name{kindPlacement, topic, tenant} }, b.placementRecord)
	records = entryDifferences(records, a.tiered, b.tiered,
		func(tenant string) name { return name{kindTenant, topic, tenant} }, b.tenantRecord)
	return moveDifferences(records, topic, a.moves, b.moves)
}

func moveDifferences(records []Record, topic string, a, b *moveSet) []Record {
	if a == b {
		return records
	}
	p := &parts{name: topic}
	for _, m := range a.all() {
		if b.find(m.ID) == nil {
			records = append(records, Record{Key: p.moveName(m.ID).key()})
		}
	}
	for _, m := range b.all() {
		if before := a.find(m.ID); before == nil || !before.equal(m) {
			records = append(records, p.moveRecord(m))
		}
	}
	return records
}

func mapDifferences[K ~string | ~int32, V comparable](records []Record, a, b map[K]V, named func(K) name, write func(K) Record) []Record {
	for _, key := range slices.Sorted(maps.Keys(a)) {
		if _, kept := b[key]; !kept {
			records = append(records, Record{Key: named(key).key()})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(b)) {
		if before, ok := a[key]; !ok || before != b[key] {
			records = append(records, write(key))
		}
	}
	return records
}

// entryDifferences walks two sorted lists, which share what did not change.
func entryDifferences(records []Record, a, b []*entry, named func(string) name, write func(*entry) Record) []Record {
	for len(a) > 0 || len(b) > 0 {
		var order int
		switch {
		case len(a) == 0:
			order = 1
		case len(b) == 0:
			order = -1
		default:
			order = strings.Compare(a[0].tenant, b[0].tenant)
		}
		switch {
		case order < 0:
			records = append(records, Record{Key: named(a[0].tenant).key()})
			a = a[1:]
		case order > 0:
			records = append(records, write(b[0]))
			b = b[1:]
		default:
			if a[0] != b[0] && !a[0].place.equal(b[0].place) {
				records = append(records, write(b[0]))
			}
			a, b = a[1:], b[1:]
		}
	}
	return records
}

// String makes a record readable in logs and test failures.
func (r Record) String() string {
	if r.Value == nil {
		return fmt.Sprintf("%s removed", renderName(string(r.Key)))
	}
	return fmt.Sprintf("%s = %s", renderName(string(r.Key)), r.Value)
}
