package routing

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ParseRate reads a rate like "500/s", "30/m" or "10000/h" as records a
// second. The number may have a fraction and must be above zero.
func ParseRate(s string) (float64, error) {
	number, unit, _ := strings.Cut(s, "/")
	n, err := strconv.ParseFloat(number, 64)
	seconds := map[string]float64{"s": 1, "m": 60, "h": 3600}[unit]
	if err != nil || seconds == 0 || !(n > 0) || math.IsInf(n, 0) || n/seconds == 0 {
		return 0, fmt.Errorf("%q is not a rate like 500/s, 30/m or 10000/h", s)
	}
	return n / seconds, nil
}

// FormatRate is the reverse of ParseRate, always by the second.
func FormatRate(perSecond float64) string {
	return strconv.FormatFloat(perSecond, 'g', -1, 64) + "/s"
}
