package store

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// Source is a routing table that may be replaced by a newer one at any time.
// All methods are safe for concurrent use and never block.
type Source interface {
	// Table returns the current table, which is immutable and never nil. It
	// is an atomic load, fit for once per record.
	Table() *routing.Table
	// Changed returns a channel that is closed once a table newer than the
	// current one is published. To miss no change, take the channel first and
	// read the table second:
	//
	//	for {
	//		changed := src.Changed()
	//		use(src.Table())
	//		<-changed
	//	}
	Changed() <-chan struct{}
}

// Aged is a [Source] that knows how old its view is.
type Aged interface {
	// Age returns the time since the source last made sure that its table is
	// the current one.
	Age() time.Duration
}

// Syncer is a [Source] that can be asked to catch up. Whoever must not act on an
// older table than that of now asks before it reads Table.
type Syncer interface {
	// Sync returns once Table is the table of the time of the call or a later
	// one.
	Sync(ctx context.Context) error
}

// Fixed returns a Source whose table never changes, for tests and for programs
// that build their table in Go.
func Fixed(t *routing.Table) Source {
	return newView(t)
}

// Pointer gives where one of this package's Sources keeps its current table,
// and nil for any other Source. Loading it is what Table does, without the call,
// for readers that count nanoseconds.
func Pointer(src Source) *atomic.Pointer[routing.Table] {
	if v, ok := src.(interface {
		pointer() *atomic.Pointer[routing.Table]
	}); ok {
		return v.pointer()
	}
	return nil
}

// view is the published table: what every kind of Source shares.
type view struct {
	table atomic.Pointer[routing.Table]

	mu sync.Mutex
	// guards changed, and orders writers of table
	changed chan struct{}
}

func newView(t *routing.Table) *view {
	v := &view{changed: make(chan struct{})}
	v.table.Store(t)
	return v
}

func (v *view) Table() *routing.Table { return v.table.Load() }

func (v *view) pointer() *atomic.Pointer[routing.Table] { return &v.table }

func (v *view) Changed() <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.changed
}

// publish makes t the current table. The table is stored before the channel is
// closed, so that whoever is woken sees it.
func (v *view) publish(t *routing.Table) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.table.Store(t)
	close(v.changed)
	v.changed = make(chan struct{})
}
