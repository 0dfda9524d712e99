package plan

import (
	"fmt"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// HashReport says how candidate keys spread over partitions.
type HashReport struct {
	// HottestShare is the share of the volume in the fullest partition, 0 to 1.
	HottestShare float64
	// Counts is the volume in each partition.
	Counts []float64
}

// HashSkew spreads keys over partitions by the remainder of their hash, as a
// client without a table would, and says how full each gets.
func HashSkew(keys []Volume, h routing.Hash, partitions int32) (HashReport, error) {
	if partitions < 1 {
		return HashReport{}, fmt.Errorf("plan: partitions is %d, must be at least 1", partitions)
	}
	r := HashReport{Counts: make([]float64, partitions)}
	var sum float64
	for _, k := range keys {
		key := []byte(k.Tenant)
		r.Counts[h.Slot(h.Sum(key), partitions)] += k.Volume
		sum += k.Volume
	}
	for _, c := range r.Counts {
		if sum > 0 {
			r.HottestShare = max(r.HottestShare, c/sum)
		}
	}
	return r, nil
}
