package routing

import (
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// History is what one change of the table did, as the history topic keeps it:
// who, why, and each entry before and after. A change of many entries takes
// several records.
type History struct {
	Version // without its digest

	// Part counts from 1 to Parts.
	Part, Parts int
	Changes     []EntryChange
}

// EntryChange is one entry of the table before and after, as the routing topic
// holds it; nil where there is none.
type EntryChange struct {
	Key, Before, After []byte
}

// historyBytes is about how large a history record gets before the next part
// begins; brokers take 1 MiB by default.
const historyBytes = 512 << 10

type historyValue struct {
	versioned

	Revision uint64         `json:"revision"`
	Actor    string         `json:"actor,omitempty"`
	Reason   string         `json:"reason,omitempty"`
	At       int64          `json:"at"` // unix ms
	ID       uint64         `json:"id,string,omitempty"`
	Part     int            `json:"part"`
	Parts    int            `json:"parts"`
	Changes  []historyEntry `json:"changes"`
}

type historyEntry struct {
	Key string `json:"key,omitempty"`
	// KeyBytes takes the place of Key when it is not text.
	KeyBytes []byte          `json:"key_bytes,omitempty"`
	Before   json.RawMessage `json:"before"`
	After    json.RawMessage `json:"after"`
}

// Changes lists what differs from table a to table b, entry by entry.
func Changes(a, b *Table) []EntryChange {
	forth, back := differences(a, b), differences(b, a)
	before := make(map[string][]byte, len(back))
	for _, r := range back {
		before[string(r.Key)] = r.Value
	}
	changes := make([]EntryChange, len(forth))
	for i, r := range forth {
		changes[i] = EntryChange{Key: r.Key, Before: before[string(r.Key)], After: r.Value}
	}
	return changes
}

// HistoryOf gives the history records of a change, one at least.
func HistoryOf(by Version, changes []EntryChange) []Record {
	var parts []History
	size := historyBytes
	for _, c := range changes {
		if size += len(c.Key) + len(c.Before) + len(c.After); size > historyBytes {
			parts = append(parts, History{Version: by})
			size = 0
		}
		last := &parts[len(parts)-1]
		last.Changes = append(last.Changes, c)
	}
	if len(parts) == 0 {
		parts = []History{{Version: by}}
	}
	records := make([]Record, len(parts))
	for i, p := range parts {
		p.Part, p.Parts = i+1, len(parts)
		records[i] = p.record()
	}
	return records
}

func (h History) record() Record {
	v := historyValue{
		versioned: versioned{recordVersion}, Revision: h.Revision, Actor: h.Actor, Reason: h.Reason,
		At: h.At.UnixMilli(), ID: h.ID, Part: h.Part, Parts: h.Parts, Changes: make([]historyEntry, len(h.Changes)),
	}
	for i, c := range h.Changes {
		e := historyEntry{Key: string(c.Key), Before: orNull(c.Before), After: orNull(c.After)}
		if !utf8.Valid(c.Key) {
			e.Key, e.KeyBytes = "", c.Key
		}
		v.Changes[i] = e
	}
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("routing: marshal history: %v", err)) // every value came out of Marshal: cannot happen
	}
	return Record{Key: strconv.AppendUint(nil, h.Revision, 10), Value: text}
}

func orNull(value []byte) json.RawMessage {
	if value == nil {
		return json.RawMessage("null")
	}
	return value
}

// ReadHistory reads a record of the history topic.
func ReadHistory(r Record) (History, error) {
	h, err := decode(r.Value, func(v *historyValue) (History, error) { return v.history(), nil })
	if err != nil {
		return History{}, recordError(string(r.Key), err)
	}
	return h, nil
}

func (v *historyValue) history() History {
	h := History{
		Version: Version{Revision: v.Revision, Actor: v.Actor, Reason: v.Reason, At: unixMilli(v.At), ID: v.ID},
		Part:    v.Part, Parts: v.Parts, Changes: make([]EntryChange, len(v.Changes)),
	}
	for i, e := range v.Changes {
		c := EntryChange{Key: e.KeyBytes, Before: unlessNull(e.Before), After: unlessNull(e.After)}
		if c.Key == nil {
			c.Key = []byte(e.Key)
		}
		h.Changes[i] = c
	}
	return h
}

func unlessNull(value json.RawMessage) []byte {
	if len(value) == 0 || string(value) == "null" {
		return nil
	}
	return value
}

// Revert gives the table that current was before the given changes, newest
// first, with all that they changed as it was. Its revision and epochs are
// those of then: Rebase makes a successor of current of it.
func Revert(current *Table, newestFirst []EntryChange, revision uint64) (*Table, error) {
	changes := map[string]change{}
	for _, c := range newestFirst {
		changes[string(c.Key)] = readChange(string(c.Key), c.Before)
	}
	d := &draft{from: current, touched: map[string]*parts{}, removed: map[string]bool{}}
	if err := d.replay(changes); err != nil {
		return nil, err
	}
	return d.compile(revision)
}
