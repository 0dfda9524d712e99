package routing

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Record is one record of the routing topic: one entry of the table, the
// version that ends a transaction, or a session.
type Record struct {
	Key []byte
	// Value is nil where the entry is removed.
	Value []byte
}

// recordVersion is the version of every value. A reader ignores fields that it
// does not know and refuses values of a higher version: their meaning changed.
const recordVersion = 1

// kind is the first part of a record's key. Keys are kind/topic/name with the
// last part in raw bytes, which is unambiguous since neither a kind nor a
// topic's name holds a slash.
//
// There is one record for each tenant, slot, tier and topic, however many
// slots change at once. Slots could share records by blocks of neighbors, which
// would spare some of the about 70 bytes that each moved slot takes: 4.5 MB at
// the most, with all of 65,536 slots moved. But then a writer must write again
// what it does not change, and the latest record of a key would no longer say
// all by itself what one thing is and since when, which is what makes
// compaction harmless.
type kind string

// The kinds. Records of other kinds are counted in the digest and otherwise
// left alone: a newer writer may have more.
const (
	kindVersion   kind = "version"
	kindTopic     kind = "topic"
	kindPlacement kind = "placement"
	kindSlot      kind = "slot"
	kindTier      kind = "tier"
	kindTenant    kind = "tenant"
	kindMove      kind = "move"
	kindSession   kind = "session"
)

// ErrRecord is wrapped by every error about a record of the routing topic that
// cannot be read.
var ErrRecord = errors.New("routing: unreadable record of the routing topic")

// ErrNewer says that a record was written by a program that this one is too
// old to understand. It comes wrapped together with ErrRecord.
var ErrNewer = errors.New("written by a newer tenantlane")

// name is what a key names, apart from its kind.
type name struct {
	kind  kind
	topic string
	rest  string // tenant, tier, slot number, move, session id; empty for a topic and the version
}

func (n name) key() []byte {
	key := string(n.kind)
	if n.topic != "" {
		key += "/" + n.topic
	}
	if n.rest != "" {
		key += "/" + n.rest
	}
	return []byte(key)
}

// parseName splits a key. Keys of unknown kinds give their kind alone.
func parseName(key string) (name, error) {
	word, rest, _ := strings.Cut(key, "/")
	n := name{kind: kind(word)}
	switch n.kind {
	case kindVersion:
		if rest != "" {
			return n, recordError(key, errors.New("the version has no name"))
		}
	case kindSession:
		n.rest = rest
	case kindTopic:
		n.topic = rest
	case kindPlacement, kindSlot, kindTier, kindTenant, kindMove:
		n.topic, n.rest, _ = strings.Cut(rest, "/")
		if n.topic == "" || n.rest == "" {
			return n, recordError(key, errors.New("needs a topic and a name"))
		}
	}
	return n, nil
}

func recordError(key string, err error) error {
	return fmt.Errorf("%w: %s: %w", ErrRecord, renderName(key), err)
}

// The values of the entries, as JSON.
type (
	versioned struct {
		V int `json:"v"`
	}
	topicValue struct {
		versioned

		Partitions int32  `json:"partitions"`
		Hash       string `json:"hash"`
		Slots      int32  `json:"slots"`
		Shared     string `json:"shared"`
		TenantOf   string `json:"tenant_of,omitempty"`
		// TenantOfBytes takes the place of TenantOf when it is not text.
		TenantOfBytes []byte `json:"tenant_of_bytes,omitempty"`
		Producers     string `json:"producers"`
		Strategy      string `json:"strategy"`
		Epoch         uint64 `json:"epoch"`
	}
	placementValue struct {
		versioned

		Partitions []int32 `json:"partitions,omitempty"`
		Spread     string  `json:"spread,omitempty"`
		Topic      string  `json:"topic,omitempty"`
		Follow     string  `json:"follow,omitempty"`
		Tier       string  `json:"tier,omitempty"`
		Epoch      uint64  `json:"epoch,omitempty"`
	}
	slotValue struct {
		versioned

		Partition int32  `json:"partition"`
		Epoch     uint64 `json:"epoch,omitempty"`
	}
	tierValue struct {
		versioned

		Weight         int     `json:"weight"`
		MaxConcurrency int     `json:"max_concurrency,omitempty"`
		Rate           float64 `json:"rate,omitempty"` // a second
		Burst          int     `json:"burst,omitempty"`
		Reserved       float64 `json:"reserved,omitempty"`
	}
	tenantValue struct {
		versioned

		Tier string `json:"tier"`
	}
)

func record(n name, value any) Record {
	text, err := json.Marshal(value)
	if err != nil { // only channels, functions and NaN do, which no value holds
		panic(fmt.Sprintf("routing: marshal %s: %v", n.key(), err))
	}
	return Record{Key: n.key(), Value: text}
}

// topicRecord holds all of a topic but its entries.
func (p *parts) topicRecord() Record {
	v := topicValue{
		versioned: versioned{recordVersion}, Partitions: p.partitions, Hash: p.hash.String(), Slots: p.slots, Shared: FormatPartitions(p.shared),
		TenantOf: p.tenantOf.String(), Producers: producersWord(p.wrapped), Strategy: strategyModulo, Epoch: p.epoch,
	}
	if !utf8.ValidString(v.TenantOf) {
		v.TenantOf, v.TenantOfBytes = "", []byte(v.TenantOf)
	}
	return record(name{kind: kindTopic, topic: p.name}, v)
}

func (p *parts) placementRecord(e *entry) Record {
	v := placementValue{
		versioned: versioned{recordVersion}, Partitions: e.place.Partitions, Spread: e.place.Spread.String(), Topic: e.place.Topic,
		Tier: e.place.Tier, Epoch: e.place.Epoch,
	}
	if e.place.FollowSlot {
		v.Follow = followSlot
	}
	return record(name{kindPlacement, p.name, e.tenant}, v)
}

func (p *parts) tenantRecord(e *entry) Record {
	return record(name{kindTenant, p.name, e.tenant}, tenantValue{versioned: versioned{recordVersion}, Tier: e.place.Tier})
}

func (p *parts) slotName(slot int32) name { return name{kindSlot, p.name, strconv.Itoa(int(slot))} }

func (p *parts) slotRecord(slot int32) Record {
	o := p.overrides[slot]
	return record(p.slotName(slot), slotValue{versioned: versioned{recordVersion}, Partition: o.Partition, Epoch: o.Epoch})
}

func (p *parts) tierRecord(tier string) Record {
	t := p.tiers[tier]
	return record(name{kindTier, p.name, tier}, tierValue{
		versioned: versioned{recordVersion}, Weight: t.Weight, MaxConcurrency: t.MaxConcurrency, Rate: t.Rate, Burst: t.Burst, Reserved: t.Reserved,
	})
}

// change is one entry's record, read. Its content is a *parts with the settings
// alone, a Placement, a SlotPlacement, a Tier, a TenantSpec or a *Move, or nil
// where the entry is removed or its kind is unknown.
type change struct {
	name    name
	slot    int32 // of kindSlot
	content any
	err     error // why the record cannot be read
}

// readChange never fails: an unreadable record matters only if nothing takes
// its place before a table is made of it.
func readChange(key string, value []byte) change {
	n, err := parseName(key)
	c := change{name: n, err: err}
	if err != nil {
		return c
	}
	if n.kind == kindSlot {
		var slot int64
		if slot, err = strconv.ParseInt(n.rest, 10, 32); err != nil || strconv.FormatInt(slot, 10) != n.rest {
			c.err = recordError(key, errors.New("not a slot number"))
			return c
		}
		c.slot = int32(slot)
	}
	if value == nil {
		return c
	}
	if c.content, err = readContent(n, value); err != nil {
		c.err = recordError(key, err)
	}
	return c
}

func readContent(n name, value []byte) (any, error) {
	switch n.kind {
	case kindTopic:
		return decode(value, func(v *topicValue) (any, error) { return v.parts(n.topic) })
	case kindPlacement:
		if p, ok := scanPlacement(value); ok {
			return p, nil
		}
		return decode(value, func(v *placementValue) (any, error) { return v.placement() })
	case kindSlot:
		return decode(value, func(v *slotValue) (any, error) { return SlotPlacement{v.Partition, v.Epoch}, nil })
	case kindTier:
		return decode(value, func(v *tierValue) (any, error) {
			return Tier{Name: n.rest, Weight: v.Weight, MaxConcurrency: v.MaxConcurrency, Rate: v.Rate, Burst: v.Burst, Reserved: v.Reserved}, nil
		})
	case kindTenant:
		return decode(value, func(v *tenantValue) (any, error) { return TenantSpec{v.Tier}, nil })
	case kindMove:
		return decode(value, func(v *moveValue) (any, error) { return v.move(n.rest) })
	case kindVersion, kindSession: // read where they count
	}
	return nil, nil // an unknown kind
}

func (v *versioned) version() int { return v.V }

// decode reads a value of one shape and refuses newer versions of it.
func decode[T, R any, P interface {
	*T
	version() int
}](value []byte, content func(*T) (R, error)) (read R, err error) {
	var v T
	if err := json.Unmarshal(value, &v); err != nil {
		return read, err
	}
	switch version := P(&v).version(); {
	case version > recordVersion:
		return read, fmt.Errorf("%w: version %d", ErrNewer, version)
	case version < 1:
		return read, errors.New("has no version")
	}
	return content(&v)
}

func (v *topicValue) parts(topic string) (*parts, error) {
	p := &parts{name: topic, partitions: v.Partitions, slots: v.Slots, epoch: v.Epoch}
	tenantOf := v.TenantOf
	if v.TenantOfBytes != nil {
		tenantOf = string(v.TenantOfBytes)
	}
	var errs [5]error
	p.hash, errs[0] = ParseHash(v.Hash)
	p.shared, errs[1] = ParsePartitions(v.Shared, MaxPartitions)
	p.tenantOf, errs[2] = ParseTenantRule(tenantOf)
	p.wrapped, errs[3] = parseProducers(v.Producers)
	_, errs[4] = parseStrategy(v.Strategy)
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (v *placementValue) placement() (p Placement, err error) {
	p = Placement{Partitions: v.Partitions, Topic: v.Topic, Tier: v.Tier, Epoch: v.Epoch}
	if v.Spread != "" {
		p.Spread, err = parseSpread(v.Spread)
	}
	if v.Follow != "" && err == nil {
		p.FollowSlot, err = parseFollow(v.Follow)
	}
	return p, err
}
