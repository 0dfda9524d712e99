package plan

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"time"
)

// Limits above which Size warns: many partitions cost files, memory and
// rebalance time on every broker, and a partition that serves only a few
// tenants balances badly.
const (
	WarnPartitions          = 64
	WarnTenantsPerPartition = 40
)

// SizeConfig says what load a topic must carry.
type SizeConfig struct {
	// PeakPerMinute is the highest rate to sustain, in records per minute. Above 0.
	PeakPerMinute float64
	// P50 is the median time a handler takes for one record. Above 0.
	P50 time.Duration
	// Concurrency is how many handlers run at once per partition. Default 1.
	Concurrency int
	// Headroom multiplies the load, for growth and for uneven tenants. Default 1.5, at least 1.
	Headroom float64
	// Minimum is the least number of partitions to answer. Default 8.
	Minimum int
	// Tenants is how many tenants share the topic; 0 when unknown.
	Tenants int
}

func (c SizeConfig) withDefaults() SizeConfig {
	if c.Concurrency == 0 {
		c.Concurrency = 1
	}
	if c.Headroom == 0 {
		c.Headroom = 1.5
	}
	if c.Minimum == 0 {
		c.Minimum = 8
	}
	return c
}

func (c SizeConfig) validate() error {
	switch {
	case !(c.PeakPerMinute > 0) || math.IsInf(c.PeakPerMinute, 0):
		return fmt.Errorf("plan: PeakPerMinute is %v, must be above 0", c.PeakPerMinute)
	case c.P50 <= 0:
		return fmt.Errorf("plan: P50 is %v, must be above 0", c.P50)
	case c.Concurrency < 1:
		return fmt.Errorf("plan: Concurrency is %d, must be at least 1", c.Concurrency)
	case !(c.Headroom >= 1) || math.IsInf(c.Headroom, 0):
		return fmt.Errorf("plan: Headroom is %v, must be at least 1", c.Headroom)
	case c.Minimum < 1:
		return fmt.Errorf("plan: Minimum is %d, must be at least 1", c.Minimum)
	case c.Tenants < 0:
		return fmt.Errorf("plan: Tenants is %d, must not be negative", c.Tenants)
	}
	return nil
}

// SizeReport is the answer of Size.
type SizeReport struct {
	// Partitions is the number of partitions that carries the load.
	Partitions int
	// Warnings says in words what is unwise about that number; never nil.
	Warnings []string
}

// Size answers how many partitions carry a load:
//
//	partitions = max(minimum, ceil(peak / (60/p50 × concurrency) × headroom))
//
// The arithmetic is exact in the decimals given, so that 1.1 times 100 is 110
// and not one more. It fails when a field is out of range or when the answer
// is beyond what a topic can have.
func Size(c SizeConfig) (SizeReport, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return SizeReport{}, err
	}
	n, err := c.partitions(c.Concurrency)
	if err != nil {
		return SizeReport{}, err
	}
	return SizeReport{Partitions: n, Warnings: c.warnings(n)}, nil
}

// SizeByConcurrency answers Size for each of the given concurrencies, for a
// picture of the trade; what cannot be had at all is left out.
func SizeByConcurrency(c SizeConfig, concurrencies []int) map[int]int {
	c = c.withDefaults()
	sizes := map[int]int{}
	for _, k := range concurrencies {
		if n, err := c.partitions(k); err == nil {
			sizes[k] = n
		}
	}
	return sizes
}

func (c SizeConfig) partitions(concurrency int) (int, error) {
	n := ceil(new(big.Rat).Quo(c.handlers(), new(big.Rat).SetInt64(int64(concurrency))))
	if !n.IsInt64() || n.Int64() > math.MaxInt32 {
		return 0, fmt.Errorf("plan: %v records a minute of %v need %v partitions at concurrency %d, more than a topic can have",
			c.PeakPerMinute, c.P50, n, concurrency)
	}
	return max(c.Minimum, int(n.Int64())), nil
}

// handlers is how many handlers must run at once: peak × p50 × headroom / 60 s.
func (c SizeConfig) handlers() *big.Rat {
	h := decimal(c.PeakPerMinute)
	h.Mul(h, new(big.Rat).SetInt64(int64(c.P50)))
	h.Mul(h, decimal(c.Headroom))
	return h.Quo(h, new(big.Rat).SetInt64(int64(time.Minute)))
}

func (c SizeConfig) warnings(n int) []string {
	warnings := []string{}
	if n > WarnPartitions {
		warnings = append(warnings, fmt.Sprintf("%d partitions are more than %d: %s", n, WarnPartitions, c.advice(WarnPartitions)))
	}
	if c.Tenants > 0 && n*WarnTenantsPerPartition > c.Tenants {
		limit := max(1, c.Tenants/WarnTenantsPerPartition)
		warnings = append(warnings, fmt.Sprintf("%d partitions for %d tenants are more than one per %d tenants: %s",
			n, c.Tenants, WarnTenantsPerPartition, c.advice(limit)))
	}
	return warnings
}

// advice names the least concurrency that stays within limit partitions.
func (c SizeConfig) advice(limit int) string {
	k := ceil(new(big.Rat).Quo(c.handlers(), new(big.Rat).SetInt64(int64(limit))))
	if c.Minimum > limit || !k.IsInt64() || k.Int64() > math.MaxInt32 {
		return fmt.Sprintf("the minimum of %d alone is above %d", c.Minimum, limit)
	}
	n, err := c.partitions(int(k.Int64()))
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("with concurrency %v, %d partitions carry the same load", k, n)
}

// decimal reads f as the shortest decimal that prints as f, which is what a person wrote.
func decimal(f float64) *big.Rat {
	r, ok := new(big.Rat).SetString(strconv.FormatFloat(f, 'g', -1, 64))
	if !ok {
		return new(big.Rat)
	}
	return r
}

func ceil(r *big.Rat) *big.Int {
	q, m := new(big.Int).DivMod(r.Num(), r.Denom(), new(big.Int))
	if m.Sign() > 0 {
		q.Add(q, big.NewInt(1))
	}
	return q
}
