package routing

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// SessionID names a producer's session; RouteHeader carries it.
type SessionID [16]byte

// String gives the id in hex.
func (id SessionID) String() string { return hex.EncodeToString(id[:]) }

// ParseSessionID is the reverse of SessionID.String.
func ParseSessionID(s string) (SessionID, error) {
	var id SessionID
	raw, err := hex.DecodeString(s)
	if err != nil || len(raw) != len(id) {
		return id, fmt.Errorf("%q is not a session id of %d hex digits", s, 2*len(id))
	}
	copy(id[:], raw)
	return id, nil
}

// Session is a producer's registration in the routing topic. Its place in the
// log decides: a move waits for every session that registered before it.
type Session struct {
	ID SessionID
	// Registration counts from 0 how often the session registered anew, since
	// its lease may have been over. Each is a record of its own: taking one back
	// leaves the next.
	Registration uint64
	// Client is what the producer calls itself, for people.
	Client string
	// Topics that it routes.
	Topics []string
	// At is when it registered, by its own clock, for people too.
	At time.Time
}

type sessionValue struct {
	versioned

	Client string   `json:"client,omitempty"`
	Topics []string `json:"topics,omitempty"`
	At     int64    `json:"at"` // unix ms
}

func (s Session) name() name {
	n := name{kind: kindSession, rest: s.ID.String()}
	if s.Registration > 0 {
		n.rest += "/" + strconv.FormatUint(s.Registration, 10)
	}
	return n
}

// Record is the registration. It belongs to no transaction.
func (s Session) Record() Record {
	return record(s.name(), sessionValue{
		versioned: versioned{recordVersion}, Client: s.Client, Topics: s.Topics, At: s.At.UnixMilli(),
	})
}

// EndRecord takes the registration back, after the producer's clean end or that
// of its lease.
func (s Session) EndRecord() Record {
	return Record{Key: s.name().key()}
}

func readSession(n name, value []byte) (Session, error) {
	id, registration, err := readSessionName(n.rest)
	if err != nil || value == nil {
		return Session{ID: id, Registration: registration}, err
	}
	return decode(value, func(v *sessionValue) (Session, error) {
		return Session{ID: id, Registration: registration, Client: v.Client, Topics: v.Topics, At: unixMilli(v.At)}, nil
	})
}

func readSessionName(s string) (id SessionID, registration uint64, err error) {
	text, number, again := strings.Cut(s, "/")
	if id, err = ParseSessionID(text); err != nil || !again {
		return id, 0, err
	}
	registration, err = strconv.ParseUint(number, 10, 64)
	if err == nil && (registration == 0 || strconv.FormatUint(registration, 10) != number) {
		err = fmt.Errorf("%q is not the number of a registration", number)
	}
	return id, registration, err
}

// Lease is a session's sign of life in the sessions topic. Observers count its
// time by their own clocks, so it holds none.
type Lease struct {
	ID SessionID
	// Revision of the table that every record now routed or in flight at the
	// session was routed by, or a later one.
	Revision uint64
	// Renewal counts the session's leases.
	Renewal uint64
	// Drained are the ids of open moves of whose units the session has nothing
	// in flight and holds everything back until the move has ended.
	Drained []string
}

type leaseValue struct {
	versioned

	Revision uint64   `json:"revision"`
	Renewal  uint64   `json:"renewal"`
	Drained  []string `json:"drained,omitempty"`
}

// Record is the lease as a record of the sessions topic; its key is the
// session's id.
func (l Lease) Record() Record {
	text, err := json.Marshal(leaseValue{versioned{recordVersion}, l.Revision, l.Renewal, l.Drained})
	if err != nil {
		panic(fmt.Sprintf("routing: marshal a lease: %v", err)) // numbers and texts: cannot happen
	}
	return Record{Key: []byte(l.ID.String()), Value: text}
}

// ReadLease reads a record of the sessions topic. ended is true for the record
// that closes a session. Keys that are no session id are of a later use of the
// topic and give ErrRecord.
func ReadLease(r Record) (l Lease, ended bool, err error) {
	id, err := ParseSessionID(string(r.Key))
	if err != nil {
		return Lease{}, false, recordError(string(r.Key), err)
	}
	if r.Value == nil {
		return Lease{ID: id}, true, nil
	}
	l, err = decode(r.Value, func(v *leaseValue) (Lease, error) {
		return Lease{ID: id, Revision: v.Revision, Renewal: v.Renewal, Drained: v.Drained}, nil
	})
	if err != nil {
		return Lease{}, false, recordError(string(r.Key), err)
	}
	return l, false, nil
}
