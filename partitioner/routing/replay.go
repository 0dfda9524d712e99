package routing

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"
)

// ErrNoTable says that the routing topic holds no table yet.
var ErrNoTable = errors.New("routing: the routing topic holds no table")

// ErrTorn says that what was replayed is not what the writer of the latest
// version had: records are missing, since the cleaner took some while they were
// being read, or a foreign writer added some. The next version or a replay from
// the start may be whole.
var ErrTorn = errors.New("routing: the replayed records do not add up to the version's digest")

// Version is the record that ends each transaction. A table exists at versions
// only.
type Version struct {
	// Revision of the table.
	Revision uint64
	// Digest of all entries of the log, whatever their kind, apart from
	// versions and sessions.
	Digest uint64
	// Actor and Reason say who made the change and why.
	Actor, Reason string
	// At is when, by the writer's clock.
	At time.Time
	// ID tells this version from another writer's of the same revision, so that
	// a writer finds out whether its own was committed. It is the writer's to
	// choose, at random.
	ID uint64
}

type versionValue struct {
	versioned

	Revision uint64 `json:"revision"`
	Digest   uint64 `json:"digest,string"`
	Actor    string `json:"actor,omitempty"`
	Reason   string `json:"reason,omitempty"`
	At       int64  `json:"at"` // unix ms
	ID       uint64 `json:"id,string,omitempty"`
}

func (v Version) record() Record {
	return record(name{kind: kindVersion}, versionValue{
		versioned: versioned{recordVersion}, Revision: v.Revision, Digest: v.Digest,
		Actor: v.Actor, Reason: v.Reason, At: v.At.UnixMilli(), ID: v.ID,
	})
}

func unixMilli(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

func readVersion(value []byte) (Version, error) {
	return decode(value, func(v *versionValue) (Version, error) {
		return Version{v.Revision, v.Digest, v.Actor, v.Reason, unixMilli(v.At), v.ID}, nil
	})
}

// Replay turns the committed records of a routing topic, in their order, into
// tables. It is the whole of what a reader of the topic decides:
//
//	Apply(record) …  entry    ──▶ open
//	                 version  ──▶ open becomes settled: Whole() until the next entry
//	                 session  ──▶ Sessions() at once
//	Fold()           settled entries become a table, if their digest is the version's
//
// A reader may fold whenever it likes, but a loader must not use a table before
// it is Whole at or after the end that the log had when it began: anything
// earlier is merely some old table. Compaction may take any record that a later
// one replaces. What it took from before the latest version, that version does
// not need; what it took for the sake of a record after that version shows in
// the digest, and Fold then gives ErrTorn instead of a table that never was.
//
// A Replay is not safe for concurrent use; the tables are.
type Replay struct {
	table    *Table // of the latest Fold
	version  Version
	versions int
	badEnd   error // why the latest version record cannot be read
	open     map[string]change
	settled  map[string]change
	entries  map[uint64]uint64 // digest of each live entry, by its key's hash
	digest   uint64            // their sum, up to the latest record
	atEnd    uint64            // their sum at the latest version
	sessions map[SessionID]*registered
	applied  uint64 // records
}

// registered is a session that is in the log.
type registered struct {
	since uint64    // which record it has been registered since without a gap
	all   []Session // by their registrations, ascending
}

// NewReplay begins at the start of a log.
func NewReplay() *Replay {
	return &Replay{
		open: map[string]change{}, settled: map[string]change{},
		entries: map[uint64]uint64{}, sessions: map[SessionID]*registered{},
	}
}

// Apply takes the log's next record. It never fails: what cannot be read counts
// only if it is still there when Fold is called.
func (r *Replay) Apply(rec Record) {
	key := string(rec.Key)
	r.applied++
	switch c := readChange(key, rec.Value); {
	case c.name.kind == kindSession:
		r.applySession(c.name, rec.Value)
	case c.name.kind == kindVersion && c.err == nil:
		r.applyVersion(rec.Value)
	default:
		r.open[key] = c
		r.count(rec)
	}
}

// applySession ignores what it cannot read: a session of a newer producer
// concerns newer coordinators.
func (r *Replay) applySession(n name, value []byte) {
	s, err := readSession(n, value)
	if err != nil {
		return
	}
	at := r.sessions[s.ID]
	if at == nil {
		at = &registered{since: r.applied}
		r.sessions[s.ID] = at
	}
	i, found := slices.BinarySearchFunc(at.all, s.Registration, func(s Session, n uint64) int { return cmp.Compare(s.Registration, n) })
	if found {
		at.all = slices.Delete(at.all, i, i+1)
	}
	if value != nil {
		at.all = slices.Insert(at.all, i, s)
	}
	if len(at.all) == 0 {
		delete(r.sessions, s.ID)
	}
}

func (r *Replay) applyVersion(value []byte) {
	r.versions++
	r.version, r.badEnd = Version{}, nil
	if value == nil {
		r.badEnd = recordError(string(kindVersion), errors.New("removed"))
	} else if v, err := readVersion(value); err != nil {
		r.badEnd = recordError(string(kindVersion), err)
	} else {
		r.version = v
	}
	r.atEnd = r.digest
	if len(r.settled) == 0 {
		r.settled, r.open = r.open, r.settled
		return
	}
	maps.Copy(r.settled, r.open)
	r.open = map[string]change{}
}

// count keeps the digest: the wrapping sum of a hash of each live entry, so
// that it depends on neither order nor history.
func (r *Replay) count(rec Record) {
	key := xxhash.Sum64(rec.Key)
	r.digest -= r.entries[key]
	if rec.Value == nil {
		delete(r.entries, key)
		return
	}
	d := entryDigest(key, rec.Value)
	r.digest += d
	r.entries[key] = d
}

func entryDigest(key uint64, value []byte) uint64 {
	var d xxhash.Digest
	d.Reset()
	_, _ = d.Write(binary.LittleEndian.AppendUint64(nil, key)) // a Digest's Write gives no errors
	_, _ = d.Write(value)
	return d.Sum64()
}

// Whole tells whether the latest record that is not a session ended a
// transaction.
func (r *Replay) Whole() bool { return r.versions > 0 && len(r.open) == 0 }

// Settled tells whether no transaction is half read: like Whole, but true at
// the start of a log too.
func (r *Replay) Settled() bool { return len(r.open) == 0 }

// Version is the latest version record, folded or not.
func (r *Replay) Version() Version { return r.version }

// Sessions lists the registered sessions, each once, with its latest
// registration, sorted by id.
func (r *Replay) Sessions() []Session { return r.SessionsBefore(r.applied) }

// Applied counts the records that were applied.
func (r *Replay) Applied() uint64 { return r.applied }

// SessionsBefore lists, as Sessions does, the sessions that are registered now
// and have been since one of the first n records.
func (r *Replay) SessionsBefore(n uint64) []Session {
	sessions := make([]Session, 0, len(r.sessions))
	for _, at := range r.sessions {
		if at.since <= n {
			sessions = append(sessions, at.all[len(at.all)-1])
		}
	}
	slices.SortFunc(sessions, func(a, b Session) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	return sessions
}

// Session gives a session's latest registration.
func (r *Replay) Session(id SessionID) (Session, bool) {
	at := r.sessions[id]
	if at == nil {
		return Session{}, false
	}
	return at.all[len(at.all)-1], true
}

// Fold gives the table of the latest version. Its errors wrap ErrNoTable,
// ErrTorn, ErrRecord or are an *Error of the table's content; the replay then
// goes on as if Fold had not been called.
func (r *Replay) Fold() (*Table, error) {
	switch {
	case r.versions == 0:
		return nil, ErrNoTable
	case r.badEnd != nil:
		return nil, r.badEnd
	case r.atEnd != r.version.Digest:
		return nil, fmt.Errorf("%w at revision %d", ErrTorn, r.version.Revision)
	case len(r.settled) == 0 && r.table != nil && r.table.revision == r.version.Revision:
		return r.table, nil
	}
	d := &draft{from: r.table, touched: map[string]*parts{}, removed: map[string]bool{}}
	if d.from == nil {
		d.from = &Table{}
	}
	if err := d.replay(r.settled); err != nil {
		return nil, err
	}
	table, err := d.compile(r.version.Revision)
	if err != nil {
		return nil, err
	}
	r.table, r.settled = table, map[string]change{} // a cleared map would keep the room of a whole load
	return table, nil
}

// Transaction gives the records that turn the table of the latest Fold into
// next, the version last, with more between, whose kinds must not be this
// package's own. Of by, all but Revision and Digest counts. The replay must be
// folded and at the log's end, which makes it the state that the records are
// written on top of. Entries that it read since the latest version, which some
// foreign writer must have left, are overwritten by what next says of them.
func (r *Replay) Transaction(next *Table, by Version, more ...Record) ([]Record, error) {
	if len(r.settled) > 0 {
		return nil, errors.New("routing: a transaction can only be built on a folded replay")
	}
	before := r.table
	if before == nil {
		before = &Table{}
	}
	records := append(differences(before, next), more...)
	records = append(records, r.corrections(records, next)...)
	by.Revision, by.Digest = next.revision, r.digest
	replaced := map[uint64]uint64{} // of keys that come twice
	for _, rec := range records {
		key := xxhash.Sum64(rec.Key)
		old, twice := replaced[key]
		if !twice {
			old = r.entries[key]
		}
		replaced[key] = 0
		if rec.Value != nil {
			replaced[key] = entryDigest(key, rec.Value)
		}
		by.Digest += replaced[key] - old
	}
	return append(records, by.record()), nil
}

// corrections are the records of next for the entries that no version ended and
// that written does not cover.
func (r *Replay) corrections(written []Record, next *Table) (records []Record) {
	if len(r.open) == 0 {
		return nil
	}
	covered := map[string]bool{}
	for _, rec := range written {
		covered[string(rec.Key)] = true
	}
	right := map[string][]byte{}
	for _, rec := range differences(&Table{}, next) {
		right[string(rec.Key)] = rec.Value
	}
	for _, key := range slices.Sorted(maps.Keys(r.open)) {
		if !covered[key] {
			records = append(records, Record{Key: []byte(key), Value: right[key]})
		}
	}
	return records
}
