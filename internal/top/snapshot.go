package top

import (
	"cmp"
	"encoding/hex"
	"slices"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tenantlane/tenantlane/lagwatch"
)

// Snapshot is what there is to draw at one moment. It is not changed after it
// was handed over.
type Snapshot struct {
	At time.Time
	// Seen is the watcher's newest evaluation; nil before the first.
	Seen *lagwatch.Evaluation
	// Workers is how many workers were asked for their tenants. Without any
	// there is no list of tenants.
	Workers int
	Tenants []Tenant
	// Problems say what could not be asked, besides what Seen says.
	Problems []string
	// Notes are lines of a story, the newest last.
	Notes []string
}

// Tenant is what a tenant does at one worker.
type Tenant struct {
	// Worker that was asked.
	Worker string
	// Name of the tenant, in raw bytes.
	Name string
	// State in the worker's word: running, waiting, parked and the like.
	State string
	// Depth is how many of its records the worker has in memory, and Skipped
	// how many offsets it will read again for it, at most.
	Depth   int
	Skipped int64
	// Running is how many of its records are being handled.
	Running int
	// Rate is how many were finished a second, lately.
	Rate float64
	// ETA is when what is in memory will be done; negative if that is unknown.
	ETA time.Duration
}

// printable is a name as people can read it, and a terminal too.
func printable(name string) string {
	if name == "" {
		return "(none)"
	}
	if !utf8.ValidString(name) {
		return "0x" + hex.EncodeToString([]byte(name))
	}
	for _, r := range name {
		if !unicode.IsPrint(r) {
			return "0x" + hex.EncodeToString([]byte(name))
		}
	}
	return name
}

// clean takes out of a line what a terminal would act upon.
func clean(line string) string {
	runes := []rune(line)
	for i, r := range runes {
		if !unicode.IsPrint(r) {
			runes[i] = ' '
		}
	}
	return string(runes)
}

// troubled tells whether a tenant wants a look.
func (t *Tenant) troubled() bool {
	return t.State != "running" && t.State != "waiting" && t.State != "idle"
}

// deepest sorts tenants: those that want a look, then the deepest.
func deepest(tenants []Tenant) []Tenant {
	sorted := slices.Clone(tenants)
	slices.SortStableFunc(sorted, func(a, b Tenant) int {
		if a.troubled() != b.troubled() {
			if a.troubled() {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(b.Depth, a.Depth), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Worker, b.Worker))
	})
	return sorted
}
