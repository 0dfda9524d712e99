package plan

import (
	"math"
	"slices"
)

// Skew says how uneven the volumes of partitions are.
type Skew struct {
	// MaxMean is the largest divided by the mean; 1 is perfect.
	MaxMean float64
	// MaxMedian is the largest divided by the lower median (sorted index ⌊(n−1)/2⌋);
	// +Inf when half of the partitions are empty.
	MaxMedian float64
}

// SkewOf measures the skew of loads; loads that are all zero have a skew of 1.
func SkewOf(loads []float64) Skew {
	var sum float64
	for _, l := range loads {
		sum += l
	}
	if sum == 0 {
		return Skew{1, 1}
	}
	sorted := slices.Sorted(slices.Values(loads))
	top := sorted[len(sorted)-1]
	median := sorted[(len(sorted)-1)/2]
	s := Skew{MaxMean: top / (sum / float64(len(loads))), MaxMedian: math.Inf(1)}
	if median > 0 {
		s.MaxMedian = top / median
	}
	return s
}
