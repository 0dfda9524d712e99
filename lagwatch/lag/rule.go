package lag

import (
	"fmt"
	"math"
	"time"
)

// Rule holds the thresholds of the rule. Zero means off for every floor, hold
// and timer, so a Rule is never defaulted behind the caller's back: start from
// Defaults and change what differs.
type Rule struct {
	// Interval is the time between two rounds, above 0. It sizes the windows.
	Interval time.Duration
	// Ratio is how many times its peers' baseline a partition's lag must
	// exceed to be hot, above 1.
	Ratio float64
	// CriticalRatio is the ratio from which a page is critical; 0: never.
	CriticalRatio float64
	// MinLag is the least lag, in records, that can be hot; 0: no floor.
	MinLag int64
	// MinDelay is the least delay that can be hot; 0: delay is not looked at.
	MinDelay time.Duration
	// MaxDelay is the delay from which a whole pool is behind; 0: off.
	MaxDelay time.Duration
	// For is how long a partition must be hot before it fires; 0: at once.
	For time.Duration
	// KeepFiring is how long a clear must hold before it resolves; 0: at once.
	KeepFiring time.Duration
	// DrainOK holds a page back while the lag is on its way to 0 within this
	// time; 0: never holds.
	DrainOK time.Duration
	// TxnHanging is how long the last stable offset may stand still while the
	// log grows; 0: off. Kafka ends transactions itself after 15 min at most.
	TxnHanging time.Duration
	// BehindPages makes a pool that is behind a page instead of a ticket.
	BehindPages bool
}

// Defaults returns the thresholds that the simulations of this package were
// made for.
func Defaults() Rule {
	return Rule{
		Interval: 10 * time.Second, Ratio: 3, CriticalRatio: 10,
		MinLag: 1000, MinDelay: time.Minute, MaxDelay: 15 * time.Minute,
		For: 5 * time.Minute, KeepFiring: 5 * time.Minute, DrainOK: 10 * time.Minute,
		TxnHanging: 10 * time.Minute,
	}
}

// Times of the rule that are not for tuning: each is a multiple of what
// consumers and brokers do by themselves.
const (
	slopeSpan      = 2 * time.Minute  // net slope of the lag
	fallSpan       = 5 * time.Minute  // "the lag falls"
	stuckFloor     = 10 * time.Minute // an unmoved commit
	noCommitAfter  = 10 * time.Minute // a held partition without a commit
	goneAfter      = 5 * time.Minute  // a group without members
	idleAfter      = 10 * time.Minute // an unmoved end
	lossFloor      = time.Hour        // time to loss that always alarms
	slowFloor      = 5 * time.Minute  // the least delay that is slow
	chronicSpan    = 6 * time.Hour    // window of the chronic ticket
	chronicShare   = 0.25             // share of chronicSpan spent hot
	hotShare       = 0.8              // share of known samples that must be hot
	blindShare     = 0.1              // share of unknown partitions
	skewRatio      = 3.0              // largest over median rate of a pool
	skewAfter      = 10 * time.Minute // how long it must be so
	skewEvery      = time.Minute      // how often it is computed
	peerRounds     = 5                // rounds for which an unseen partition stays a peer
	blindRounds    = 3                // rounds with too many unknown
	goneRounds     = 3                // rounds in which the coordinator says "no such group"
	staleAfter     = 30 * time.Minute // evidence from before a blindness
	rebalanceSpan  = 30 * time.Minute // window of the rebalance budget
	rebalanceGrace = 5 * time.Minute  // rebalance time that suppresses
)

// Validate names the first threshold that cannot be used.
func (r Rule) Validate() error {
	switch {
	case r.Interval <= 0:
		return fmt.Errorf("interval %v: must be above 0", r.Interval)
	case !(r.Ratio > 1) || math.IsInf(r.Ratio, 1): // which nothing exceeds
		return fmt.Errorf("ratio %v: must be above 1, and finite", r.Ratio)
	case !(r.CriticalRatio >= 0) || math.IsInf(r.CriticalRatio, 1):
		return fmt.Errorf("critical_ratio %v: must not be negative, and finite", r.CriticalRatio)
	case r.MinLag < 0:
		return fmt.Errorf("min_lag %d: must not be negative", r.MinLag)
	}
	for _, d := range []struct {
		name string
		d    time.Duration
	}{
		{"min_delay", r.MinDelay},
		{"max_delay", r.MaxDelay},
		{"for", r.For},
		{"keep_firing_for", r.KeepFiring},
		{"drain_ok", r.DrainOK},
		{"txn_hanging", r.TxnHanging},
	} {
		if d.d < 0 {
			return fmt.Errorf("%s %v: must not be negative", d.name, d.d)
		}
	}
	return nil
}
