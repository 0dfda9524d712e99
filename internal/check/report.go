package check

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// worstTenants bounds Report.Worst.
const worstTenants = 10

// Report is the verdict. Counts are of records, except Tenants.
type Report struct {
	Tenants  int    `json:"tenants"`  // distinct, produced or handled
	Produced uint64 `json:"produced"` // acknowledged, distinct
	Handled  uint64 `json:"handled"`  // distinct
	// Lost were acknowledged and handled nowhere.
	Lost uint64 `json:"lost"`
	// Duplicates are handlings of a record beyond its first;
	// DuplicatesAllowed are those that the commits permit.
	Duplicates        uint64 `json:"duplicates"`
	DuplicatesAllowed uint64 `json:"duplicates_allowed"`
	OrderViolations   uint64 `json:"order_violations"`
	// Quarantined are records that were set aside as stale.
	// QuarantinedAcknowledged of them had been acknowledged where they lay.
	Quarantined             uint64 `json:"quarantined"`
	QuarantinedAcknowledged uint64 `json:"quarantined_acknowledged"`
	// EarlyCommits are records that a commit covered before they were done.
	EarlyCommits uint64 `json:"early_commits"`
	// Unacknowledged were handled though no acknowledgement is known. That is
	// normal for a producer that died or gave up, and no fault.
	Unacknowledged uint64 `json:"unacknowledged"`
	// Worst are the IDs with the most faults, at most ten.
	Worst []Finding `json:"worst"`
}

// Finding is what is wrong with one ID, with the first example of it.
type Finding struct {
	Tenant            string `json:"tenant"`
	TenantHex         string `json:"tenant_hex,omitempty"` // when Tenant is not text
	Producer          string `json:"producer"`
	Lost              uint64 `json:"lost"`
	OrderViolations   uint64 `json:"order_violations"`
	Duplicates        uint64 `json:"duplicates"`
	DuplicatesAllowed uint64 `json:"duplicates_allowed"`
	EarlyCommits      uint64 `json:"early_commits"`
	// QuarantinedAcknowledged were acknowledged and set aside all the same.
	QuarantinedAcknowledged uint64 `json:"quarantined_acknowledged"`
	Example                 string `json:"example"`
}

// OK reports whether the promise was kept.
func (r Report) OK() bool { return r.Problem() == "" }

// Problem names every kind of broken promise in one line, "" for none.
func (r Report) Problem() string {
	var parts []string
	add := func(n uint64, what string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, what))
		}
	}
	add(r.Lost, "lost")
	add(r.OrderViolations, "out of order")
	add(r.Duplicates-r.DuplicatesAllowed, "repeated below the committed offset")
	add(r.EarlyCommits, "committed before they were handled")
	add(r.QuarantinedAcknowledged, "acknowledged and set aside in quarantine")
	return strings.Join(parts, ", ")
}

// Report judges everything so far. Records that are still on their way count
// as lost, so call it when the workers are done.
func (c *Checker) Report() Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.totals
	report := Report{
		Produced: t.produced, Handled: t.handled,
		Duplicates: t.duplicates, DuplicatesAllowed: t.allowed,
		OrderViolations: t.violations, EarlyCommits: t.early,
		Quarantined: uint64(len(c.quarantine)), QuarantinedAcknowledged: t.acknowledged,
		Worst: []Finding{},
	}
	tenants := make(map[string]struct{})
	for id, s := range c.sequences {
		tenants[id.Tenant] = struct{}{}
		lost, lowest := s.produced.missing(s.handled)
		report.Lost += lost
		if f := c.faults[s]; lost > 0 || f.serious() {
			report.Worst = append(report.Worst, f.finding(id, lost, lowest))
		}
	}
	report.Tenants = len(tenants)
	report.Unacknowledged = report.Handled - (report.Produced - report.Lost)
	slices.SortFunc(report.Worst, worse)
	report.Worst = report.Worst[:min(worstTenants, len(report.Worst))]
	return report
}

// worse sorts by how much is wrong, then by name so that output is stable.
func worse(a, b Finding) int {
	return cmp.Or(
		cmp.Compare(b.weight(), a.weight()),
		strings.Compare(a.Tenant, b.Tenant),
		strings.Compare(a.Producer, b.Producer),
	)
}

func (f Finding) weight() uint64 {
	return f.Lost + f.OrderViolations + f.EarlyCommits + f.QuarantinedAcknowledged + f.Duplicates - f.DuplicatesAllowed
}

// faults is what went wrong with one ID; nil means nothing did.
type faults struct {
	violations, early, duplicates, allowed, aside uint64
	example                                       string
}

func (f *faults) serious() bool {
	return f != nil && (f.violations > 0 || f.early > 0 || f.aside > 0 || f.duplicates > f.allowed)
}

func (f *faults) finding(id ID, lost, lowest uint64) Finding {
	found := Finding{Tenant: id.Tenant, Producer: id.Producer, Lost: lost}
	if !utf8.ValidString(id.Tenant) {
		found.Tenant = strings.ToValidUTF8(id.Tenant, "\uFFFD")
		found.TenantHex = hex.EncodeToString([]byte(id.Tenant))
	}
	if f != nil {
		found.OrderViolations, found.EarlyCommits = f.violations, f.early
		found.Duplicates, found.DuplicatesAllowed = f.duplicates, f.allowed
		found.QuarantinedAcknowledged, found.Example = f.aside, f.example
	}
	if found.Example == "" {
		found.Example = fmt.Sprintf("sequence %d was acknowledged and never handled", lowest)
	}
	return found
}

func (f *faults) overtaken(h Handling, highest uint64) {
	f.violations++
	f.show(h, "was handled for the first time after sequence %d", highest)
}

func (f *faults) fellBack(h Handling) {
	f.violations++
	f.show(h, "was repeated out of order within one process")
}

func (f *faults) earlyCommit(h Handling, said Commit) {
	f.early++
	f.show(h, "was handled for the first time when it was committed: it lies %s", said.where(h.Offset))
}

func (f *faults) setAside(h Handling) {
	f.aside++
	if f.example == "" {
		f.example = fmt.Sprintf("sequence %d was acknowledged at partition %d, offset %d, and lies in quarantine", h.Seq, h.Partition, h.Offset)
	}
}

func (f *faults) repeat(h Handling, said Commit, done bool) (allowed bool) {
	f.duplicates++
	if !done {
		f.allowed++
		return true
	}
	f.show(h, "was repeated %s", said.where(h.Offset))
	return false
}

// where says how a commit covers an offset.
func (c *Commit) where(at int64) string {
	if at < c.Offset {
		return fmt.Sprintf("below the committed offset %d", c.Offset)
	}
	return fmt.Sprintf("below the committed frontier %d, which names no lane that it could be of", c.Frontier)
}

// show keeps the first example.
func (f *faults) show(h Handling, format string, args ...any) {
	if f.example == "" {
		f.example = fmt.Sprintf("sequence %d (partition %d, offset %d, process %s) ", h.Seq, h.Partition, h.Offset, h.Process) +
			fmt.Sprintf(format, args...)
	}
}
