package lagwatch

import (
	"encoding/json"
	"math"
	"time"

	"github.com/tenantlane/tenantlane/lagwatch/lag"
	"github.com/tenantlane/tenantlane/lagwatch/mute"
	"github.com/tenantlane/tenantlane/lagwatch/notify"
)

// Evaluation is what one round came to. It is not changed after it was made.
type Evaluation struct {
	At      time.Time `json:"at"`
	Cluster string    `json:"cluster"`
	// Groups has an entry per group, topic and pool.
	Groups []PoolEvaluation `json:"groups"`
	// Topics are those about which there is anything to say whoever reads them.
	Topics []TopicEvaluation `json:"topics,omitempty"`
	// Blind is true when anything that should be seen was not: it may be worse
	// than it looks.
	Blind bool `json:"blind"`
	// Unknown is how many partitions were not seen.
	Unknown int `json:"unknown_partitions"`
	// Errors say what could not be asked.
	Errors []string `json:"errors,omitempty"`
	// Skipped are parts of the rule that need history and had none.
	Skipped []string `json:"skipped,omitempty"`
	// Watcher are open alerts about the watcher itself.
	Watcher []Firing `json:"watcher,omitempty"`
	// StateError says why the state file was not written last time.
	StateError string `json:"state_error,omitempty"`

	// Muted says of open alerts, by dedup key, what keeps them from beginning at
	// targets that have no silences of their own.
	Muted map[string]string `json:"muted,omitempty"`
	// Silences are those that are not over.
	Silences []mute.Silence `json:"silences,omitempty"`

	alerts []notify.Alert
}

// PoolEvaluation is one pool of partitions that are compared with each other.
type PoolEvaluation struct {
	Group string `json:"group"`
	Topic string `json:"topic"`
	Pool  string `json:"pool"`
	// Baseline is what the partition with the largest lag is compared with.
	Baseline float64 `json:"baseline"`
	// Skew is the largest lag over the lower median.
	Skew float64 `json:"skew"`
	// InflowSkew and HandledSkew are the same for records that come in and
	// that are done, per second over two minutes.
	InflowSkew  float64 `json:"inflow_skew"`
	HandledSkew float64 `json:"handled_skew"`
	ByteSkew    float64 `json:"byte_skew"`
	// MemberSkew and BrokerSkew are the largest of these per member of the group
	// and per broker that leads.
	MemberSkew float64               `json:"member_skew"`
	BrokerSkew float64               `json:"broker_skew"`
	Members    int                   `json:"members"`
	State      string                `json:"state,omitempty"`
	Partitions []PartitionEvaluation `json:"partitions"`
	// Firing are the open alerts of the pool; those of the group as a whole
	// are in its first pool.
	Firing []Firing `json:"firing"`
}

// PartitionEvaluation is one partition of a pool.
type PartitionEvaluation struct {
	Partition int32
	// Known is false when this round did not see it: then it has no numbers.
	Known bool
	// Committed is false when the group never committed it: then it has no lag.
	Committed  bool
	Lag        int64
	Delay      time.Duration
	DelayBound bool
	Ratio      float64
	Class      lag.Class
	Hold       lag.Hold
	Firing     bool
}

// MarshalJSON writes what is not known as null.
func (p PartitionEvaluation) MarshalJSON() ([]byte, error) {
	out := struct {
		Partition  int32    `json:"partition"`
		Lag        *int64   `json:"lag"`
		DelayS     *float64 `json:"delay_s"`
		DelayBound bool     `json:"delay_at_least,omitempty"`
		Class      string   `json:"class"`
		Hold       string   `json:"hold,omitempty"`
		Ratio      *float64 `json:"ratio"`
	}{Partition: p.Partition, Class: p.Class.String(), Hold: p.Hold.String()}
	if p.Known && p.Committed {
		delay, ratio := rounded(p.Delay.Seconds()), rounded(p.Ratio)
		out.Lag, out.DelayS, out.Ratio, out.DelayBound = &p.Lag, &delay, &ratio, p.DelayBound
	}
	return json.Marshal(out)
}

func rounded(x float64) float64 { return math.Round(x*1000) / 1000 }

// Firing is one open alert as it is printed.
type Firing struct {
	Alert      string    `json:"alert"`
	Partitions []int32   `json:"partitions"`
	Tenant     string    `json:"tenant"`
	TenantHex  string    `json:"tenant_hex,omitempty"`
	Share      float64   `json:"share"`
	Severity   string    `json:"severity"`
	Since      time.Time `json:"since"`
	Summary    string    `json:"summary,omitempty"`
}

// Fires is true when any alert is open.
func (e *Evaluation) Fires() bool {
	if len(e.Watcher) > 0 {
		return true
	}
	for i := range e.Groups {
		if len(e.Groups[i].Firing) > 0 {
			return true
		}
	}
	for i := range e.Topics {
		if len(e.Topics[i].Firing) > 0 {
			return true
		}
	}
	return false
}

// Alerts returns the open alerts as they are delivered, the watchdog of a live
// watcher among them. The slice belongs to the evaluation.
func (e *Evaluation) Alerts() []notify.Alert { return e.alerts }
