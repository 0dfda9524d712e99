package demo

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/internal/load"
	"github.com/tenantlane/tenantlane/internal/top"
)

const (
	minDuration = 15 * time.Second
	// minLag is how long the import's lane must at least lag, so that the
	// watcher's page is no matter of luck.
	minLag = 6500 * time.Millisecond
	// stalled is how long nothing may be handled, after the end, before what is
	// left counts as lost. As long as records are handled a slow machine has
	// all the time it needs.
	stalled = 20 * time.Second
)

// Config says how the demo runs. The zero value works.
type Config struct {
	// Duration of the load, 20 s by default, at least 15 s.
	Duration time.Duration
	// Tenants is the population; the built-in one if it is empty.
	Tenants load.Population
	// Partitions of the topic, 32 by default, at least 8.
	Partitions int32
	// Workers at the start, 2 by default; one more joins.
	Workers int
	// NoMove leaves the move out.
	NoMove bool
	// Rate of the background load, in records a second; 2,000 by default.
	Rate float64
	// Import is how many records the import has; 200,000 by default.
	Import int64
	// KafkaOpts reach a real cluster; nil starts the embedded broker. Brokers
	// is how that cluster is called in words.
	KafkaOpts []kgo.Opt
	Brokers   string
	// Tell, if not nil, gets what happens in words, a line at a time; calls
	// come one after the other.
	Tell func(Line)
	// Show, if not nil, gets a picture of what goes on each time that the
	// watcher has looked; calls come one after the other.
	Show func(*top.Snapshot)
	// Logger takes the logs of all parts; nil means none.
	Logger *zap.Logger

	shortest time.Duration // tests run shorter ones
}

// Line is one thing that happened, and when since the begin of the load.
type Line struct {
	At   time.Duration
	Text string
}

// String is the line for people, broken where it is long.
func (l Line) String() string { return wrap(fmt.Sprintf("%5.1fs  ", l.At.Seconds()), l.Text) }

func (c Config) withDefaults() (Config, error) {
	if c.Duration == 0 {
		c.Duration = 20 * time.Second
	}
	if c.Partitions == 0 {
		c.Partitions = 32
	}
	if c.Workers == 0 {
		c.Workers = 2
	}
	if c.Rate == 0 {
		c.Rate = 2000
	}
	if c.Import == 0 {
		c.Import = 200_000
	}
	if c.Tell == nil {
		c.Tell = func(Line) {}
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	if c.shortest == 0 {
		c.shortest = minDuration
	}
	if len(c.Tenants.Tenants) > 0 {
		return c, nil
	}
	var err error
	c.Tenants, err = load.DefaultPopulation()
	return c, err
}

// validate names the flag that sets a field, since only the command uses it.
func (c Config) validate() error {
	switch {
	case c.Duration < c.shortest:
		return fmt.Errorf("--duration: %s, want at least %s, or there is no time for the import to lag", c.Duration, c.shortest)
	case c.Partitions < 8:
		return fmt.Errorf("--partitions: %d, want at least 8, so that whales and others have their own", c.Partitions)
	case c.Workers < 1:
		return fmt.Errorf("--workers: %d, want at least 1", c.Workers)
	case c.Rate < 0 || c.Import < 0:
		return fmt.Errorf("rate %g and import %d must not be negative", c.Rate, c.Import)
	case len(c.Tenants.Tenants) < 20:
		return fmt.Errorf("--tenants: %d tenants, want at least 20", len(c.Tenants.Tenants))
	}
	return nil
}

// schedule is when what happens, since the begin of the load.
type schedule struct {
	join, quiet, imports, move, end time.Duration
	// cost is what handling one record takes of its tenant's lane.
	cost time.Duration
}

func (c Config) schedule() schedule {
	part := func(share float64) time.Duration { return time.Duration(share * float64(c.Duration)) }
	lag := max(minLag, part(0.5))
	return schedule{
		join: part(0.06), quiet: part(0.15), imports: part(0.25), move: part(0.8), end: c.Duration,
		cost: lag / time.Duration(max(c.Import, 1)),
	}
}
