package routing

import (
	"fmt"
	"strconv"
	"strings"
)

// ParsePartitions reads a list of partitions and ranges, like "2-15,18,20-31",
// in the order written. A partition below zero or from limit up, one that is
// listed twice, and a range without members are errors.
func ParsePartitions(s string, limit int32) ([]int32, error) { return parseList("partition", s, limit) }

// ParseSlots is ParsePartitions for slots.
func ParseSlots(s string, limit int32) ([]int32, error) { return parseList("slot", s, limit) }

func parseList(what, s string, limit int32) ([]int32, error) {
	var list []int32
	seen := map[int32]bool{}
	for part := range strings.SplitSeq(s, ",") {
		low, high, err := parseRange(what, strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		for n := low; n <= high; n++ {
			if n < 0 || n >= int64(limit) {
				return nil, outside(what, n, limit)
			}
			if seen[int32(n)] {
				return nil, fmt.Errorf("%s %d is listed twice", what, n)
			}
			seen[int32(n)] = true
			list = append(list, int32(n))
		}
	}
	return list, nil
}

func outside(what string, n int64, limit int32) error {
	return fmt.Errorf("%s %d is outside the topic, which has 0 to %d", what, n, limit-1)
}

func parseRange(what, s string) (low, high int64, err error) {
	if s == "" {
		return 0, 0, fmt.Errorf("an empty range")
	}
	first, last, isRange := strings.Cut(s, "-")
	if low, err = parseNumber(what, first); err != nil {
		return 0, 0, err
	}
	if !isRange {
		return low, low, nil
	}
	if high, err = parseNumber(what, last); err != nil {
		return 0, 0, err
	}
	if high < low {
		return 0, 0, fmt.Errorf("range %s is empty: it ends before it begins", s)
	}
	return low, high, nil
}

func parseNumber(what, s string) (int64, error) {
	n, err := strconv.ParseUint(strings.TrimSpace(s), 10, 31)
	if err != nil {
		return 0, fmt.Errorf("%q is not a %s number", s, what)
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
