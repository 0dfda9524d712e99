package routing

import (
	"fmt"
	"strconv"
	"strings"
)

// ParsePartitions reads a list of partitions and ranges, like "2-15,18,20-31",
// in the order written. A partition below zero or from limit up, one that is
// listed twice, and a range without members are errors.
func ParsePartitions(s string, limit int32) ([]int32, error) {
	var list []int32
	seen := map[int32]bool{}
	for part := range strings.SplitSeq(s, ",") {
		low, high, err := parseRange(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		for p := low; p <= high; p++ {
			if p < 0 || p >= int64(limit) {
				return nil, outside(p, limit)
			}
			if seen[int32(p)] {
				return nil, fmt.Errorf("partition %d is listed twice", p)
			}
			seen[int32(p)] = true
			list = append(list, int32(p))
		}
	}
	return list, nil
}

func outside(p int64, limit int32) error {
	return fmt.Errorf("partition %d is outside the topic, which has 0 to %d", p, limit-1)
}

func parseRange(s string) (low, high int64, err error) {
	if s == "" {
		return 0, 0, fmt.Errorf("an empty range")
	}
	first, last, isRange := strings.Cut(s, "-")
	if low, err = parsePartition(first); err != nil {
		return 0, 0, err
	}
	if !isRange {
		return low, low, nil
	}
	if high, err = parsePartition(last); err != nil {
		return 0, 0, err
	}
	if high < low {
		return 0, 0, fmt.Errorf("range %s is empty: it ends before it begins", s)
	}
	return low, high, nil
}

func parsePartition(s string) (int64, error) {
	n, err := strconv.ParseUint(strings.TrimSpace(s), 10, 31)
	if err != nil {
		return 0, fmt.Errorf("%q is not a partition number", s)
	}
	return int64(n), nil
}

// FormatPartitions is the reverse of ParsePartitions: it joins neighbors that
// ascend by one into ranges and keeps the order.
func FormatPartitions(list []int32) string {
	var b strings.Builder
	for i := 0; i < len(list); {
		end := i
		for end+1 < len(list) && list[end+1] == list[end]+1 {
			end++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(int(list[i])))
		if end > i {
			b.WriteString("-" + strconv.Itoa(int(list[end])))
		}
		i = end + 1
	}
	return b.String()
}
