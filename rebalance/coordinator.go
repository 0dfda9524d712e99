package rebalance

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

// Defaults of a [CoordinatorConfig] and a [StoppedMove].
const (
	// DefaultDrainTimeout bounds how long a tenant is held back.
	DefaultDrainTimeout = 300 * time.Second
	// DefaultPoll is how often commits are looked at.
	DefaultPoll = 20 * time.Millisecond
)

// Pauser is a producer that can hold one tenant back; see partitioner.Producer,
// which is one and has all of the optional methods below as well.
type Pauser interface {
	// Pause holds the tenant's new records back.
	Pause(topic string, tenant []byte)
	// Resume lets them go, those that waited first.
	Resume(topic string, tenant []byte)
	// InFlight is how many of the tenant's records are sent and not answered.
	InFlight(topic string, tenant []byte) int
}

// settler is a Pauser that can tell when nothing of the tenant is on its way
// any more. Without it InFlight is asked until it is 0.
type settler interface {
	Settle(ctx context.Context, topic string, tenant []byte) error
}

// viewer is a Pauser with its own view of the table, which may lag behind. It
// resumes by itself once it has the new one. Without it the Pauser is resumed
// as soon as the table is written.
type viewer interface {
	ResumeAt(topic string, tenant []byte, revision uint64)
	WaitRevision(ctx context.Context, revision uint64) error
}

// TableStore is where the table is read and replaced; see store.File.
type TableStore interface {
	store.Source
	// Write replaces the table at once or not at all. After an error the table
	// is the old one, unless Table shows the new one. A table that does not
	// follow the present one is refused with store.ErrRevision.
	Write(ctx context.Context, t *routing.Table) error
}

// CoordinatorConfig says what a [Coordinator] works with. Client, Table and
// Producers are required.
type CoordinatorConfig struct {
	// Client reads end offsets and commits. It stays the caller's.
	Client *kgo.Client
	// Table is switched by moves.
	Table TableStore
	// Producers are all that may produce a moving tenant's records. A producer
	// that is missing here breaks the order of what it sends during a move.
	Producers []Pauser
	// Poll is how often commits are looked at during a move; DefaultPoll by
	// default, at least 1 ms.
	Poll time.Duration
	// Logger takes a line for each step of a move; nil means none.
	Logger *zap.Logger
}

func (c CoordinatorConfig) withDefaults() CoordinatorConfig {
	if c.Poll == 0 {
		c.Poll = DefaultPoll
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	return c
}

func (c CoordinatorConfig) validate() error {
	switch {
	case c.Client == nil:
		return errors.New("Client is missing")
	case c.Table == nil:
		return errors.New("Table is missing")
	case len(c.Producers) == 0:
		return errors.New("Producers are missing: a move has to hold the tenant back at each")
	case c.Poll < time.Millisecond:
		return fmt.Errorf("Poll is %v, must be at least 1ms", c.Poll)
	}
	return nil
}

// Coordinator moves tenants. Its methods may be called from any goroutine, and
// moves of several tenants may overlap.
type Coordinator struct {
	cfg   CoordinatorConfig
	admin *kadm.Client

	mu sync.Mutex
	// guards moving
	moving map[unit]bool
}

// unit is what a move moves.
type unit struct{ topic, tenant string }

// NewCoordinator makes a Coordinator. It starts nothing and needs no closing.
func NewCoordinator(cfg CoordinatorConfig) (*Coordinator, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("coordinator: %w", err)
	}
	return &Coordinator{cfg: cfg, admin: kadm.NewClient(cfg.Client), moving: make(map[unit]bool)}, nil
}

// claim makes sure that a tenant moves once at a time.
func (c *Coordinator) claim(u unit) (release func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.moving[u] {
		return nil, fmt.Errorf("tenant %q of topic %s: %w", u.tenant, u.topic, ErrMoving)
	}
	c.moving[u] = true
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.moving, u)
	}, nil
}
