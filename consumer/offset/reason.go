package offset

import "fmt"

// Reason says why a commit's metadata is ignored, so that the committed offset
// alone counts.
type Reason uint8

const (
	// Valid: it is not ignored.
	Valid Reason = iota
	// Empty: there is none, as with a commit that has nothing to name.
	Empty
	// Foreign: it is not in this format; another program committed.
	Foreign
	// Version: it is of a version that this program does not know.
	Version
	// Corrupt: it is in this format but damaged.
	Corrupt
	// Cluster: it was made in another cluster, as a mirroring tool copies it.
	Cluster
	// Topic: it was made for another topic of this name.
	Topic
	// Fingerprint: lane keys were formed by other rules.
	Fingerprint
	// Moved: the committed offset was changed and the metadata kept.
	Moved
	// NoEpoch: the broker does not tell where its leader epoch ends.
	NoEpoch
	// Truncated: the log was cut below the frontier.
	Truncated
	// Mismatch: the record at a named offset is not of that lane.
	Mismatch

	reasons
)

var reasonNames = [reasons]string{
	"valid", "empty", "foreign", "version", "corrupt", "cluster", "topic",
	"fingerprint", "moved", "no_epoch", "truncated", "mismatch",
}

// String is the reason as a metric's label.
func (r Reason) String() string {
	if r < reasons {
		return reasonNames[r]
	}
	return fmt.Sprintf("reason(%d)", uint8(r))
}

// Reasons lists every reason but Valid, for metrics that start at 0.
func Reasons() []Reason {
	all := make([]Reason, 0, reasons-1)
	for r := Empty; r < reasons; r++ {
		all = append(all, r)
	}
	return all
}
