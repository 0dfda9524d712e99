package lane

import (
	"fmt"
	"math"
	"time"
)

// Config sets up a Scheduler. The zero value works.
type Config struct {
	// Name gives the 32-bit name under which a lane appears in Behind. It is
	// called once for each lane that is made. Default: all names are 0.
	Name func(key []byte) uint32
	// LaneRecords is how many unfinished records a lane holds in memory before
	// it overflows and Push answers Skipped. 0: no limit, so that no lane
	// overflows by itself. A caller that sets it must re-read what is skipped.
	LaneRecords int
	// LaneBytes bounds a lane in bytes in the same way. 0: no limit.
	LaneBytes int64
	// LaneWait lets a lane that can run exceed both while what it has is
	// expected to take less handler time. Default 0: never.
	LaneWait time.Duration
	// TenantConcurrency is how many grants of one tenant may be in hand at
	// once where neither its tier nor the tenant says otherwise. Default 1:
	// the tenant lock, which holds across partitions. Negative: no limit.
	TenantConcurrency int
	// Quantum is the most records in one grant. Default 64.
	Quantum int
	// LaneTime bounds a grant by its expected handler time; a grant has at
	// least one record. Default 1 ms.
	LaneTime time.Duration
	// TakeTime ends a Take once what it granted is expected to run that long,
	// so that cheap handlers share the cost of a lock and slow ones leave
	// lanes to other workers. Default 100 µs.
	TakeTime time.Duration
	// Guess is the handler time expected of a record before anything was
	// measured. Default 1 ms.
	Guess time.Duration
	// Averages is how many tenants' mean handler times are kept after their
	// lanes are gone; the least recently used go first. Rounded up to a power
	// of two; 16 bytes each. Default 65,536.
	Averages int
}

// Tier is what a tier's tenants get. The zero value of a field means "no
// limit", of Weight 1.
type Tier struct {
	// Weight is its share of handler time relative to the other tiers that
	// have work, whatever the number of their tenants. Default 1.
	Weight float64
	// Reserved is the least share of handler time, of all tiers, that the tier
	// gets while it has work; lent to the others while it has none. In [0, 1).
	// Where the reserved shares add up to more than 0.99 they are scaled down
	// to that.
	Reserved float64
	// MaxConcurrency is how many grants of the whole tier may be in hand.
	MaxConcurrency int
	// Rate and Burst limit the whole tier, in cost units (by default records)
	// per second and units. A rate without a burst has one second's burst.
	Rate, Burst float64
	// Tenant is what each tenant of the tier gets unless SetTenant says
	// otherwise.
	Tenant Tenant
}

// Tenant is what one tenant gets. Zero fields take the tier's, then the
// scheduler's value.
type Tenant struct {
	// Weight is its share relative to its tier's other tenants with work.
	// Default 1.
	Weight float64
	// Concurrency is how many of its grants may be in hand at once. Negative:
	// no limit.
	Concurrency int
	// Rate and Burst as in Tier, for this tenant alone. A negative rate: no
	// limit, although its tier has one.
	Rate, Burst float64
}

func (c Config) withDefaults() Config {
	if c.Name == nil {
		c.Name = func([]byte) uint32 { return 0 }
	}
	if c.LaneRecords == 0 {
		c.LaneRecords = math.MaxInt
	}
	if c.LaneBytes == 0 {
		c.LaneBytes = math.MaxInt64
	}
	if c.TenantConcurrency == 0 {
		c.TenantConcurrency = 1
	}
	if c.Quantum == 0 {
		c.Quantum = 64
	}
	if c.LaneTime == 0 {
		c.LaneTime = time.Millisecond
	}
	if c.TakeTime == 0 {
		c.TakeTime = 100 * time.Microsecond
	}
	if c.Guess == 0 {
		c.Guess = time.Millisecond
	}
	if c.Averages == 0 {
		c.Averages = 1 << 16
	}
	return c
}

// validate names the first field that is out of its range.
func (c Config) validate() error {
	switch {
	case c.LaneRecords < 0:
		return fmt.Errorf("lane: Config.LaneRecords %d: must not be negative", c.LaneRecords)
	case c.LaneBytes < 0:
		return fmt.Errorf("lane: Config.LaneBytes %d: must not be negative", c.LaneBytes)
	case c.Quantum < 0:
		return fmt.Errorf("lane: Config.Quantum %d: must not be negative", c.Quantum)
	case c.LaneTime < 0:
		return fmt.Errorf("lane: Config.LaneTime %v: must not be negative", c.LaneTime)
	case c.TakeTime < 0:
		return fmt.Errorf("lane: Config.TakeTime %v: must not be negative", c.TakeTime)
	case c.Guess < 0:
		return fmt.Errorf("lane: Config.Guess %v: must not be negative", c.Guess)
	case c.Averages < 0 || c.Averages > 1<<26:
		return fmt.Errorf("lane: Config.Averages %d: must be in [0, %d]", c.Averages, 1<<26)
	}
	return nil
}

// quantize makes a weight a multiple of 1/1024 in [1/1024, 2^20], so that sums
// of weights are exact in a float64 and adding and removing leaves no residue.
func quantize(w float64) float64 {
	switch {
	case w == 0 || math.IsNaN(w):
		return 1
	case w < 1.0/1024:
		return 1.0 / 1024
	case w > 1<<20:
		return 1 << 20
	}
	return math.Round(w*1024) / 1024
}
