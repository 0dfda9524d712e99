package demo

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tenantlane/tenantlane/internal/check"
)

// Report is what the demo came to. Its JSON is the command's.
type Report struct {
	Broker          string `json:"broker"`     // "embedded" or "kafka"
	Population      int    `json:"population"` // tenants that there are
	Tenants         int    `json:"tenants"`    // those of them that had records
	Produced        uint64 `json:"produced"`
	Handled         uint64 `json:"handled"`
	Lost            uint64 `json:"lost"`
	Duplicates      uint64 `json:"duplicates"`
	OrderViolations uint64 `json:"order_violations"`
	RecordsPerS     Figure `json:"records_per_s"`
	QuietP99        Before `json:"quiet_p99_ms"`
	// SkewMaxMedian is the busiest partition's handled rate over the median
	// one's, of the population's load without the import.
	SkewMaxMedian Figure `json:"skew_max_median"`
	// SkewByHash is what hashing alone would have given.
	SkewByHash Figure  `json:"skew_max_median_by_hash"`
	Moves      []Move  `json:"moves"`
	Alerts     []Alert `json:"alerts"`
	Import     Import  `json:"import"`
	// Problem is every broken promise in one line, "" for none.
	Problem string `json:"problem"`
}

// Before holds one number before the import and one during it.
type Before struct {
	Before Figure `json:"before"`
	During Figure `json:"during"`
}

// Figure is a measured number, printed with two decimals. What could not be
// measured is null.
type Figure float64

// MarshalJSON writes a number or null.
func (f Figure) MarshalJSON() ([]byte, error) {
	if !f.known() {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, math.Round(float64(f)*100)/100, 'f', -1, 64), nil
}

func (f Figure) known() bool { return !math.IsNaN(float64(f)) && !math.IsInf(float64(f), 0) }

func (f Figure) String() string {
	if !f.known() {
		return "?"
	}
	return strconv.FormatFloat(float64(f), 'f', 1, 64)
}

// Move is one tenant that was moved.
type Move struct {
	Tenant  string  `json:"tenant"`
	From    []int32 `json:"from"`
	To      []int32 `json:"to"`
	Mode    string  `json:"mode"`
	PauseMs Figure  `json:"pause_ms"`
}

// Alert is one page that the webhook got.
type Alert struct {
	Alert      string  `json:"alert"`
	Partitions []int32 `json:"partitions"`
	Tenant     string  `json:"tenant"`
	Severity   string  `json:"severity"`
	Summary    string  `json:"summary"`
	AfterS     Figure  `json:"after_s"` // seconds since the import began
}

// Import is the burst in the middle.
type Import struct {
	Tenant    string `json:"tenant"`
	Records   int64  `json:"records"`
	Partition int32  `json:"partition"`
	Neighbors int    `json:"neighbors"` // tenants that share the partition
	ProduceS  Figure `json:"produce_s"`
	DrainS    Figure `json:"drain_s"` // from the first record produced to the last handled
}

func (r *Report) take(c check.Report) {
	r.Tenants, r.Produced, r.Handled = c.Tenants, c.Produced, c.Handled
	r.Lost, r.Duplicates, r.OrderViolations = c.Lost, c.Duplicates, c.OrderViolations
	r.Problem = c.Problem()
}

// String is the report in words.
func (r *Report) String() string {
	var b strings.Builder
	say := func(label, format string, args ...any) {
		b.WriteString(wrap(fmt.Sprintf("  %-12s ", label), fmt.Sprintf(format, args...)) + "\n")
	}
	verdict := "Nothing was lost, and every tenant's records were handled in order."
	if r.Problem != "" {
		verdict = "THE PROMISE WAS BROKEN: " + r.Problem + "."
	}
	fmt.Fprintf(&b, "%s\n\n", verdict)
	say("handled", "%s records of %s tenants, %s/s: %d lost, %d out of order, %d repeated",
		count(r.Handled), count(uint64(r.Tenants)), count(uint64(r.RecordsPerS)), r.Lost, r.OrderViolations, r.Duplicates)
	if r.Tenants < r.Population {
		say("", "the other %s of the population's %s tenants are too small to send anything in so short a time",
			count(uint64(r.Population-r.Tenants)), count(uint64(r.Population)))
	}
	say("import", "%s records of %q waited in partition %d, which %d other tenants use: produced in %s s, all handled after %s s",
		count(uint64(r.Import.Records)), r.Import.Tenant, r.Import.Partition, r.Import.Neighbors, r.Import.ProduceS, r.Import.DrainS)
	say("quiet ones", "of the other tenants' records, 99 in 100 were handled within %s ms before the import and %s ms during it",
		r.QuietP99.Before, r.QuietP99.During)
	say("skew", "the busiest partition handled %s times the median one's records; by hash alone it would be %s times",
		r.SkewMaxMedian, r.SkewByHash)
	for _, m := range r.Moves {
		say("move", "whale %q went from partition %v to %v: its producers waited %s ms, no other tenant's did", m.Tenant, m.From, m.To, m.PauseMs)
	}
	for _, a := range r.Alerts {
		say("page", "%s after %s s, naming tenant %q in partition %v (%s)", a.Alert, a.AfterS, a.Tenant, a.Partitions, a.Severity)
	}
	if len(r.Alerts) == 0 {
		say("page", "none was sent")
	}
	return b.String()
}

// count groups digits by three.
func count(n uint64) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func seconds(d time.Duration) Figure { return Figure(d.Seconds()) }
