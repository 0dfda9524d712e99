package plan

import (
	"bufio"
	"cmp"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// Volume is how much one tenant sends, in any unit that is the same for all:
// records, bytes, or a share.
type Volume = routing.Volume

// ReadVolumes reads lines of `tenant<TAB>volume`, or of a tenant alone, which
// counts as one; repeats add up. With hexTenants the tenants are hexadecimal.
// The result is ordered by volume, largest first, then by tenant. An empty
// tenant, or a volume that is not a finite number of at least 0, is an error
// that names the line; so is an input without any line.
func ReadVolumes(r io.Reader, hexTenants bool) ([]Volume, error) {
	sums := map[string]float64{}
	in := bufio.NewScanner(r)
	in.Buffer(nil, 1<<20)
	for n := 1; in.Scan(); n++ {
		line := strings.TrimSuffix(in.Text(), "\r")
		if line == "" {
			continue
		}
		v, err := parseVolume(line, hexTenants)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if sums[v.Tenant] += v.Volume; math.IsInf(sums[v.Tenant], 0) {
			return nil, fmt.Errorf("line %d: the volumes of tenant %q add up to more than a number holds", n, v.Tenant)
		}
	}
	if err := in.Err(); err != nil {
		return nil, fmt.Errorf("reading volumes: %w", err)
	}
	if len(sums) == 0 {
		return nil, fmt.Errorf("no tenant in the input")
	}
	volumes := make([]Volume, 0, len(sums))
	for t, v := range sums {
		volumes = append(volumes, Volume{Tenant: t, Volume: v})
	}
	return Sorted(volumes), nil
}

// Sorted orders volumes in place, largest first and then by tenant, and returns them.
func Sorted(volumes []Volume) []Volume {
	slices.SortFunc(volumes, func(a, b Volume) int {
		return cmp.Or(cmp.Compare(b.Volume, a.Volume), strings.Compare(a.Tenant, b.Tenant))
	})
	return volumes
}

func parseVolume(line string, hexTenants bool) (Volume, error) {
	tenant, number := line, "1"
	// The last tab separates, so that a tenant may hold tabs of its own.
	if i := strings.LastIndexByte(line, '\t'); i >= 0 {
		tenant, number = line[:i], strings.TrimSpace(line[i+1:])
	}
	if hexTenants {
		raw, err := hex.DecodeString(tenant)
		if err != nil {
			return Volume{}, fmt.Errorf("tenant %q is not hexadecimal: %w", tenant, err)
		}
		tenant = string(raw)
	}
	if tenant == "" {
		return Volume{}, fmt.Errorf("the tenant is empty")
	}
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || !(v >= 0) || math.IsInf(v, 0) {
		return Volume{}, fmt.Errorf("volume %q of tenant %q is not a number of at least 0", number, tenant)
	}
	return Volume{Tenant: tenant, Volume: v}, nil
}

func total(volumes []Volume) float64 {
	var sum float64
	for _, v := range volumes {
		sum += v.Volume
	}
	return sum
}
