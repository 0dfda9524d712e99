package consumer

import (
	"bytes"
	"context"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Record is one record as a handler sees it: the client's record with what
// the runtime knows about it. It, and the memory behind it, is the handler's
// until the handler returns; Clone what has to live longer. Both structs are
// other records' afterwards, also where another goroutine still looks at them;
// with Config.KeepRecords only this one is.
type Record struct {
	*kgo.Record
	Tenant  []byte  // whose record it is; nil for a record without a tenant
	Attempt int     // 1, and one more for each failed handling by this process; RetryAfter is none
	Token   Token   // for applications that fence their own writes
	leases  *leases // of the worker that runs the handler; nil: nothing is limited
}

// Token says by whose right a record is handled. Of two workers that handle
// the same partition, the one with the higher generation owns it: a store
// that keeps the highest generation it has seen per partition and refuses
// lower ones keeps a late worker out.
type Token struct {
	Generation int32  // of the consumer group, at assignment
	Partition  int32  // of the record's topic
	Epoch      uint64 // of the assignment within this process, ascending
}

// Clone returns a copy that shares no memory with r and stays valid after the
// handler has returned.
func (r *Record) Clone() *Record {
	c := *r
	c.Record = copyRecord(r.Record)
	c.Tenant = bytes.Clone(r.Tenant)
	c.leases = r.leases.detached()
	return &c
}

// Handler handles one record. Records of one lane come one at a time and in
// offset order; those of different lanes run together. A nil error ends the
// record. An error is retried as Config.Retry says, unless it is made by
// Skip, RetryAfter or Permanent. A panic counts as an error. The context ends
// at the handler's deadline, and at once when the runtime stops now.
type Handler func(ctx context.Context, r *Record) error

// BatchHandler handles up to Config.BatchSize records of one lane, in offset
// order. The first done of them are finished. An error is that of rs[done] and
// means what a Handler's does; those after it come again. Without an error the
// rest comes again too. It must not finish none of them without an error.
type BatchHandler func(ctx context.Context, rs []*Record) (done int, err error)

// Assigned is one assignment of a partition to this worker.
type Assigned struct {
	Topic string
	Token
	// Named says that the worker goes on from the frontier of the group's last
	// commit, and with the lanes that it names. Else it begins at the commit's
	// offset, as where there was no more to say, or metadata was ignored.
	Named bool
}

// Committed is one partition's commit: everything below Offset is done, and
// everything below Frontier too, except of Lanes from their offsets on. A commit
// may name more lanes than are told here: these, and the frontier above them, are
// what no later commit goes back behind.
type Committed struct {
	Topic     string
	Partition int32
	Offset    int64
	Frontier  int64
	Lanes     []CommittedLane // ascending by offset
}

// CommittedLane is a lane that a commit names.
type CommittedLane struct {
	Name   uint32 // offset.Name of its key
	Offset int64  // its first unfinished offset
}
