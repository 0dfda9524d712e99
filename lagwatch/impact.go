package lagwatch

import "github.com/tenantlane/tenantlane/lagwatch/lag"

// impact is what an alert means for whoever waits, in a sentence.
func impact(alert string) string {
	switch alert {
	case lag.AlertHot:
		return "Tenants of these partitions wait longer than all others."
	case lag.AlertStuck:
		return "Nothing of these partitions is handled, for all tenants in them."
	case lag.AlertSlow, lag.AlertBehind:
		return "All tenants of the pool wait longer than they should."
	case lag.AlertLossRisk:
		return "Records will be deleted before anyone read them."
	case lag.AlertLost:
		return "Records were deleted before anyone read them."
	case lag.AlertRewind:
		return "Records are handled a second time."
	case lag.AlertReset:
		return "What was in the topic before is gone; its offsets begin anew."
	case lag.AlertNoCommit:
		return "A restart would read these partitions from where the client begins by default."
	case lag.AlertGone:
		return "Nothing of the group's topics is handled."
	case lag.AlertTxnHanging:
		return "Readers of committed records get nothing beyond it."
	case lag.AlertLaneBehind:
		return "One tenant waits; the others of the partition go on."
	case lag.AlertDominates:
		return "Tenants beside it wait for its records."
	case lag.AlertSkew:
		return "The next burst there is felt by all tenants beside it."
	case lag.AlertRebalanceStuck:
		return "Members are given partitions over and over and handle little."
	case lag.AlertIdleMembers:
		return "These members are paid for and do nothing."
	case lag.AlertPlacementStale:
		return "Other tenants share fewer partitions than they could."
	case lag.AlertPartitionUnused:
		return "Workers hold partitions in which nothing happens."
	case lag.AlertStaleRecords:
		return "A producer writes by an old table, or around it: such records wait in quarantine, or break their tenant's order."
	case lag.AlertUnread:
		return "Nobody reads these records before retention deletes them."
	case lag.AlertTableMismatch:
		return "Producers cannot send records of some tenants."
	case lag.AlertLaneParked:
		return "These tenants get nothing until an operator skips or resumes them."
	case lag.AlertBlind:
		return "Lag there would not page."
	case lag.AlertNotifyFailing:
		return "Pages do not arrive there."
	}
	return ""
}
