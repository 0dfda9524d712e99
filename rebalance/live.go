package rebalance

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

// Defaults of a [LiveConfig] and a [LiveMove].
const (
	// DefaultDeadline is after how long a move that is not switched may be aborted
	// by anyone. It is twice a session's lease, so that a producer that died
	// does not end the move.
	DefaultDeadline = 30 * time.Second
	// DefaultPatience is how long a group that is rebalancing is waited for before
	// a move begins.
	DefaultPatience = 10 * time.Second
)

// LiveTable is a routing table that knows its producers; see store.Topic.
type LiveTable interface {
	store.Source
	// Update changes the table by a decision over the present one, which no
	// other writer changes meanwhile.
	Update(ctx context.Context, by store.Author, decide func(present *routing.Table) (*routing.Table, error)) (*routing.Table, error)
	// AwaitDrained waits until no registered producer has records of a prepared
	// move's unit in flight, and gives those whose leases were over.
	AwaitDrained(ctx context.Context, moveID string, progress func(waiting []routing.Session)) (over []routing.Session, err error)
	// Sessions lists the registered producers.
	Sessions(ctx context.Context) ([]routing.Session, error)
}

// LiveConfig says what a [LiveCoordinator] works with. KafkaOpts and Table are
// required.
type LiveConfig struct {
	// KafkaOpts reach the cluster of the topics that move: seed brokers, TLS,
	// SASL, client id. They must not concern producing.
	KafkaOpts []kgo.Opt
	// Table is where moves are entries. It stays the caller's.
	Table LiveTable
	// Patience is how long a group that is rebalancing is waited for before a
	// move begins; DefaultPatience by default. Negative: not at all.
	Patience time.Duration
	// Logger takes a line for each step of a move; nil means none.
	Logger *zap.Logger
	// Registerer takes the metrics tenantlane_move_*; nil means none.
	Registerer prometheus.Registerer
}

func (c LiveConfig) withDefaults() LiveConfig {
	if c.Patience == 0 {
		c.Patience = DefaultPatience
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	return c
}

func (c LiveConfig) validate() error {
	switch {
	case len(c.KafkaOpts) == 0:
		return errors.New("KafkaOpts is empty, must name the seed brokers at least")
	case c.Table == nil:
		return errors.New("Table is missing")
	}
	return nil
}

// fenceTimeout bounds how long one fence is tried to be written.
const fenceTimeout = 10 * time.Second

// LiveCoordinator moves tenants and slots while their producers and workers go
// on. Its methods may be called from any goroutine, and any number of
// coordinators may work on one table: each step of a move is decided by the
// table as it is then.
type LiveCoordinator struct {
	cfg     LiveConfig
	client  *kgo.Client // writes fences, asks for groups and offsets
	admin   *kadm.Client
	metrics *liveMetrics
	settle  time.Duration // settleTimeout, shorter in tests
}

// NewLiveCoordinator makes a LiveCoordinator; close it.
func NewLiveCoordinator(cfg LiveConfig) (*LiveCoordinator, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("live coordinator: %w", err)
	}
	client, err := kgo.NewClient(append(append([]kgo.Opt{kgo.MetadataMinAge(100 * time.Millisecond)}, cfg.KafkaOpts...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerLinger(0), // a control path: producers wait meanwhile
		kgo.RecordDeliveryTimeout(fenceTimeout),
	)...)
	if err != nil {
		return nil, fmt.Errorf("live coordinator: Kafka client: %w", err)
	}
	c := &LiveCoordinator{cfg: cfg, client: client, admin: kadm.NewClient(client), settle: settleTimeout}
	if c.metrics, err = newLiveMetrics(cfg.Table, cfg.Registerer); err != nil {
		client.Close()
		return nil, fmt.Errorf("live coordinator: metrics: %w", err)
	}
	return c, nil
}

// Close ends the coordinator's client. A move under way fails, and is aborted
// by others at its deadline.
func (c *LiveCoordinator) Close() {
	c.client.Close()
	c.metrics.unregister()
}

// newMoveID is 16 hex digits that no other move has.
func newMoveID() (string, error) {
	var id [8]byte
	if _, err := rand.Read(id[:]); err != nil {
		return "", fmt.Errorf("move id: %w", err)
	}
	return hex.EncodeToString(id[:]), nil
}
