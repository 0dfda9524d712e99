package load

import (
	"fmt"
	"math/rand/v2"
)

// Sampler draws tenants in proportion to their volumes, in constant time by
// the alias method (M. D. Vose, "A linear algorithm for generating random
// numbers with a given distribution", 1991).
type Sampler struct {
	names []string
	keep  []float64 // probability of i itself in column i
	alias []int32   // who has the rest of column i
	rng   *rand.Rand
}

// NewSampler draws from p; the same seed draws the same tenants.
func NewSampler(p Population, seed uint64) *Sampler {
	n := len(p.Tenants)
	s := &Sampler{
		names: make([]string, n), keep: make([]float64, n), alias: make([]int32, n),
		rng: newRand(seed),
	}
	var small, large []int32
	for i, v := range p.Tenants {
		s.names[i] = v.Tenant
		s.keep[i] = p.Share(i) * float64(n)
		if s.keep[i] < 1 {
			small = append(small, int32(i))
		} else {
			large = append(large, int32(i))
		}
	}
	for len(small) > 0 && len(large) > 0 {
		less, more := small[len(small)-1], large[len(large)-1]
		small = small[:len(small)-1]
		s.alias[less] = more
		if s.keep[more] -= 1 - s.keep[less]; s.keep[more] < 1 {
			large = large[:len(large)-1]
			small = append(small, more)
		}
	}
	for _, i := range append(small, large...) { // 1 but for rounding
		s.keep[i] = 1
	}
	return s
}

// Next draws a tenant.
func (s *Sampler) Next() string {
	i := s.rng.IntN(len(s.names))
	if s.rng.Float64() < s.keep[i] {
		return s.names[i]
	}
	return s.names[s.alias[i]]
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, seed^0x5851f42d4c957f2d)) }

// Burst is a tenant that sends an exact count besides its share of the
// population.
type Burst struct {
	Tenant string
	Count  int64
}

// Mix is a finite stream of tenants: count drawn from a population and each
// burst's own, evenly interleaved from first to last.
type Mix struct {
	sampler *Sampler
	counts  []int64 // left: [0] is the population's, then one per burst
	bursts  []Burst
	left    int64
	rng     *rand.Rand
}

// NewMix makes a Mix. Counts must not be negative.
func NewMix(p Population, count int64, bursts []Burst, seed uint64) (*Mix, error) {
	if count < 0 {
		return nil, fmt.Errorf("count %d is negative", count)
	}
	m := &Mix{sampler: NewSampler(p, seed), counts: []int64{count}, bursts: bursts, left: count, rng: newRand(seed + 1)}
	for _, b := range bursts {
		if b.Count < 0 || b.Tenant == "" {
			return nil, fmt.Errorf("burst of tenant %q: count %d, want a tenant and a count that is not negative", b.Tenant, b.Count)
		}
		m.counts = append(m.counts, b.Count)
		m.left += b.Count
	}
	return m, nil
}

// Left is how many tenants are still to come.
func (m *Mix) Left() int64 { return m.left }

// Next gives the next tenant; false after the last one.
func (m *Mix) Next() (string, bool) {
	if m.left == 0 {
		return "", false
	}
	pick := m.rng.Int64N(m.left)
	m.left--
	for i := range m.counts {
		if pick < m.counts[i] {
			m.counts[i]--
			if i == 0 {
				return m.sampler.Next(), true
			}
			return m.bursts[i-1].Tenant, true
		}
		pick -= m.counts[i]
	}
	return "", false
}
