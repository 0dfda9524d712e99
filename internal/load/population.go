package load

import (
	"bytes"
	_ "embed"
	"fmt"
	"io"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/rebalance/plan"
)

// defaultTSV is a 1-in-57 sample of public JavaScript packages and their
// monthly downloads: real names on a real power law.
//
//go:embed tenant_volumes.tsv
var defaultTSV []byte

// Population is who the tenants are and how much each sends, largest first.
type Population struct {
	Tenants []routing.Volume
	total   float64
}

// DefaultPopulation is the built-in population: 4,033 tenants of which the
// largest sends 12 % of everything.
func DefaultPopulation() (Population, error) {
	return ReadPopulation("built-in tenants", bytes.NewReader(defaultTSV), false)
}

// ReadPopulation reads lines of tenant and volume, separated by a tab. name is
// the file's, for errors, which also name the line. Tenants of volume 0 are
// allowed; at least one must have more. With hexTenants they are hexadecimal.
func ReadPopulation(name string, r io.Reader, hexTenants bool) (Population, error) {
	volumes, err := plan.ReadVolumes(r, hexTenants)
	if err != nil {
		return Population{}, fmt.Errorf("%s: %w", name, err)
	}
	p := NewPopulation(volumes)
	if p.total <= 0 {
		return Population{}, fmt.Errorf("%s: no tenant has a volume above 0", name)
	}
	return p, nil
}

// NewPopulation makes a population of volumes, which must be finite and not
// negative.
func NewPopulation(volumes []routing.Volume) Population {
	p := Population{Tenants: plan.Sorted(volumes)}
	for _, v := range p.Tenants {
		p.total += v.Volume
	}
	return p
}

// Uniform is the same tenants with equal volumes.
func (p Population) Uniform() Population {
	equal := make([]routing.Volume, len(p.Tenants))
	for i, v := range p.Tenants {
		equal[i] = routing.Volume{Tenant: v.Tenant, Volume: 1}
	}
	return NewPopulation(equal)
}

// Without leaves out the tenants for which drop is true.
func (p Population) Without(drop func(tenant string) bool) Population {
	var kept []routing.Volume
	for _, v := range p.Tenants {
		if !drop(v.Tenant) {
			kept = append(kept, v)
		}
	}
	return NewPopulation(kept)
}

// Share is the part of the whole that the tenant at index i sends.
func (p Population) Share(i int) float64 { return p.Tenants[i].Volume / p.total }
