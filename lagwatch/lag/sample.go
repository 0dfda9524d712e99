package lag

import "time"

// None is an offset that is not there: no commit, no lane, not probed.
const None int64 = -1

// Sample is what one round learned about one partition of a group.
type Sample struct {
	Partition int32
	// Known is true when the commit and the log's ends were both read in this
	// round. When false nothing below counts: the partition is unknown, which
	// is neither lag 0 nor resolved.
	Known bool
	// Committed is the group's commit, None when it never committed.
	Committed int64
	// Runnable is the smallest offset that the group has not finished and
	// could work on now. It equals Committed unless the group says otherwise.
	Runnable int64
	// Visible is the first offset from Committed on that a read_committed
	// consumer can be given, the stable offset when there is none, None when
	// nobody looked.
	Visible int64
	// Start, End and Stable are the log start, the high watermark and the last
	// stable offset (None when not read).
	Start, End, Stable int64
	// Delay is the age of the record at Runnable (0 when caught up); when
	// DelayBound it is only known to be at least that.
	Delay      time.Duration
	DelayBound bool
	// LaneDelay is the age of the oldest lane that the group's commit names
	// and that is neither parked nor paused; 0 when there is none.
	LaneDelay time.Duration
	// LossIn is the time until retention reaches the commit; negative when it
	// is not in sight.
	LossIn time.Duration
	// Owned is true when a member of the group holds the partition.
	Owned bool
	// Quiet is true when the end has not moved for long, Hanging when a
	// transaction keeps the stable offset back (see Log).
	Quiet, Hanging bool
	// Owner is the number, from 1, of the member that holds the partition, and
	// Leader the broker's id that leads it, plus 1; 0 when that is unknown.
	Owner, Leader int32
	// ByteRate is how many bytes per second come in; 0 when unknown.
	ByteRate float64
	// Moving is true while a move of tenants explains that records wait there.
	Moving bool
}

// GroupSample is what one round learned about a group.
type GroupSample struct {
	// Known is true when the group's coordinator described it.
	Known bool
	// Members is the number of members.
	Members int
	// Claims is how many partitions the members can hold, in all topics of the
	// group; 0 when unknown. Set it for one topic of a group, so that members
	// in excess are told once.
	Claims int
	// Rebalancing is true when the group was moving partitions in this round.
	Rebalancing bool
	// Missing is true when the coordinator said, through both describe APIs,
	// that there is no such group. It implies Known.
	Missing bool
}

// Round is one sample of a (group, topic).
type Round struct {
	At time.Time
	// TopicID tells a topic from its successor of the same name; zero when
	// unknown.
	TopicID [16]byte
	// Retention is the topic's retention time; 0 when unlimited or unknown.
	Retention time.Duration
	Group     GroupSample
	// Samples is sorted by partition. A partition of the tracker that is not
	// in it is unknown.
	Samples []Sample
}

// Class is what a partition is, the most urgent first where several hold.
type Class uint8

// The classes. See Tracker for the rule of each.
const (
	OK Class = iota
	Idle
	Unknown
	NoCommit
	Recovering
	Behind
	Slow
	Hot
	TxnHanging
	Stuck
	Gone
	Rewind
	Reset
	LossRisk
	Lost
)

var classNames = [...]string{
	"OK", "IDLE", "UNKNOWN", "NO_COMMIT", "RECOVERING", "BEHIND", "SLOW", "HOT",
	"TXN_HANGING", "STUCK", "GONE", "REWIND", "RESET", "LOSS_RISK", "LOST",
}

// String returns the class in capitals, as it is printed everywhere.
func (c Class) String() string {
	if int(c) < len(classNames) {
		return classNames[c]
	}
	return "?"
}

// Severity is how loud an alert is.
type Severity uint8

// The severities, quietest first.
const (
	Ticket Severity = iota
	Page
	Critical
)

var severityNames = [...]string{"ticket", "page", "critical"}

// String returns "ticket", "page" or "critical".
func (s Severity) String() string {
	if int(s) < len(severityNames) {
		return severityNames[s]
	}
	return "?"
}

// Hold says why a partition that is ready to fire does not.
type Hold uint8

// The reasons to hold a page.
const (
	HoldNone       Hold = iota
	HoldDraining        // the net slope clears the lag within drain_ok
	HoldRecovering      // the pool was late, and this one falls within its old share
	HoldMoving          // a move of tenants holds its records back
)

var holdNames = [...]string{"", "draining", "recovering", "moving"}

// String returns "", "draining", "recovering" or "moving".
func (h Hold) String() string {
	if int(h) < len(holdNames) {
		return holdNames[h]
	}
	return "?"
}

// The names of alerts, as they appear in labels and in JSON.
const (
	AlertHot             = "partition_hot"
	AlertStuck           = "partition_stuck"
	AlertSlow            = "slow"
	AlertBehind          = "behind"
	AlertLossRisk        = "loss_risk"
	AlertRewind          = "rewind"
	AlertReset           = "reset"
	AlertLost            = "lost"
	AlertNoCommit        = "no_commit"
	AlertGone            = "gone"
	AlertTxnHanging      = "txn_hanging"
	AlertLaneBehind      = "lane_behind"
	AlertDominates       = "tenant_dominates"
	AlertSkew            = "skew"
	AlertRebalanceStuck  = "rebalance_stuck"
	AlertIdleMembers     = "idle_members"
	AlertBlind           = "monitor_blind"
	AlertPlacementStale  = "placement_stale"
	AlertStaleRecords    = "stale_records"
	AlertPartitionUnused = "partition_unused"
	AlertUnread          = "unread"
	AlertTableMismatch   = "table_mismatch"
	AlertLaneParked      = "lane_parked"
	AlertNotifyFailing   = "notify_failing"
	AlertWatchdog        = "watchdog"
)
