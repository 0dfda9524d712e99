package lagwatch

import "github.com/tenantlane/tenantlane/lagwatch/lag"

// impacts are what alerts mean for whoever waits, in a sentence each.
func impacts() map[string]string {
	return map[string]string{
		lag.AlertHot:             "Tenants of these partitions wait longer than all others.",
		lag.AlertStuck:           "Nothing of these partitions is handled, for all tenants in them.",
		lag.AlertSlow:            "All tenants of the pool wait longer than they should.",
		lag.AlertBehind:          "All tenants of the pool wait longer than they should.",
		lag.AlertLossRisk:        "Records will be deleted before anyone read them.",
		lag.AlertLost:            "Records were deleted before anyone read them.",
		lag.AlertRewind:          "Records are handled a second time.",
		lag.AlertReset:           "What was in the topic before is gone; its offsets begin anew.",
		lag.AlertNoCommit:        "A restart would read these partitions from where the client begins by default.",
		lag.AlertGone:            "Nothing of the group's topics is handled.",
		lag.AlertTxnHanging:      "Readers of committed records get nothing beyond it.",
		lag.AlertLaneBehind:      "One tenant waits; the others of the partition go on.",
		lag.AlertDominates:       "Tenants beside it wait for its records.",
		lag.AlertSkew:            "The next burst there is felt by all tenants beside it.",
		lag.AlertRebalanceStuck:  "Members are given partitions over and over and handle little.",
		lag.AlertIdleMembers:     "These members are paid for and do nothing.",
		lag.AlertPlacementStale:  "Other tenants share fewer partitions than they could.",
		lag.AlertPartitionUnused: "Workers hold partitions in which nothing happens.",
		lag.AlertStaleRecords:    "A producer writes by an old table, or around it: such records wait in quarantine, or break their tenant's order.",
		lag.AlertUnread:          "Nobody reads these records before retention deletes them.",
		lag.AlertTableMismatch:   "Producers cannot send records of some tenants.",
		lag.AlertLaneParked:      "These tenants get nothing until an operator skips or resumes them.",
		lag.AlertBlind:           "Lag there would not page.",
		lag.AlertNotifyFailing:   "Pages do not arrive there.",
	}
}

func impact(alert string) string { return impacts()[alert] }
