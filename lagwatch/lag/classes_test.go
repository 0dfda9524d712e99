package lag_test

import (
	"slices"
	"testing"
	"time"

	"github.com/tenantlane/tenantlane/lagwatch/lag"
)

func TestClassesOfTheLog(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		edit     func(b *bench, s *lag.Sample)
		retain   time.Duration
		rounds   int
		alert    string
		severity lag.Severity
		class    lag.Class
	}{
		"loss risk": {
			func(_ *bench, s *lag.Sample) { s.LossIn = 59 * time.Minute }, 0, 1, lag.AlertLossRisk, lag.Page, lag.LossRisk,
		},
		"loss risk by share of retention": {
			func(_ *bench, s *lag.Sample) { s.LossIn = 16 * time.Hour }, 7 * 24 * time.Hour, 1, lag.AlertLossRisk, lag.Page, lag.LossRisk,
		},
		"lost": {
			func(_ *bench, s *lag.Sample) { s.Start = s.Committed + 10; s.Visible = lag.None }, 0, 1, lag.AlertLost, lag.Page, lag.Lost,
		},
		"hanging transaction": {
			func(_ *bench, s *lag.Sample) { s.Hanging = true }, 0, 1, lag.AlertTxnHanging, lag.Page, lag.TxnHanging,
		},
		"no commit": {
			func(_ *bench, s *lag.Sample) { s.Committed, s.Runnable, s.Visible = lag.None, lag.None, lag.None }, 0, 62,
			lag.AlertNoCommit, lag.Ticket, lag.NoCommit,
		},
		"lane behind": {
			func(_ *bench, s *lag.Sample) { s.LaneDelay = 11 * time.Minute }, 0, 1, lag.AlertLaneBehind, lag.Ticket, lag.OK,
		},
		"lane behind pages at max_delay": {
			func(_ *bench, s *lag.Sample) { s.LaneDelay = 15 * time.Minute }, 0, 1, lag.AlertLaneBehind, lag.Page, lag.OK,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, lag.Defaults())
			b.retain = c.retain
			b.edit = func(s *lag.Sample) {
				if s.Partition == 1 {
					c.edit(b, s)
				}
			}
			b.rounds(c.rounds, 5, 5, 5)
			b.requireFiring(c.alert, c.severity, 1)
			b.requireClass(1, c.class)
			if len(b.verdict.Alerts) != 1 {
				t.Fatalf("alerts %+v, want only %s", b.verdict.Alerts, c.alert)
			}
		})
	}
}

func TestRewindAndResetAreEvents(t *testing.T) {
	t.Parallel()
	b := newBench(t, lag.Defaults())
	b.topicID[0] = 1
	b.rounds(3, 5, 5)
	b.round(5, 500_000)
	b.requireFiring(lag.AlertRewind, lag.Ticket, 1)
	b.requireClass(1, lag.Rewind)
	b.rounds(forRounds, 5, 5)
	b.requireSilent(lag.AlertRewind)
	b.topicID[0] = 2
	b.end = 0
	b.round(0, 0)
	b.requireFiring(lag.AlertReset, lag.Ticket)
	b.requireSilent(lag.AlertRewind)
	b.rounds(forRounds, 5, 5)
	b.requireSilent(lag.AlertReset)
}

func TestGoneNeedsMembersSeenBefore(t *testing.T) {
	t.Parallel()
	commit := int64(0)
	still := func(s *lag.Sample) {
		if commit == 0 {
			commit = s.Committed
		}
		s.Committed, s.Runnable, s.Visible = commit, commit, commit
	}
	b := newBench(t, lag.Defaults())
	b.edit = still
	b.group.Members = 0
	b.rounds(40, 5)
	b.requireSilent(lag.AlertGone)

	b = newBench(t, lag.Defaults())
	b.round(5)
	b.group.Members, b.edit, commit = 0, still, 0
	b.rounds(30, 5)
	b.requireSilent(lag.AlertGone)
	b.rounds(2, 5)
	b.requireFiring(lag.AlertGone, lag.Page)
	b.requireClass(0, lag.Gone)
	b.group.Members, b.edit = 2, func(*lag.Sample) {}
	b.rounds(forRounds, 5)
	b.requireSilent(lag.AlertGone)
}

func TestMissingGroupIsGoneAfterThreeRoundsAndStaysOpen(t *testing.T) {
	t.Parallel()
	b := newBench(t, lag.Defaults())
	b.rounds(forRounds, 9000, 1)
	b.group = lag.GroupSample{Known: true, Missing: true}
	b.edit = func(s *lag.Sample) { s.Committed, s.Runnable, s.Visible = lag.None, lag.None, lag.None }
	b.rounds(2, 1, 1)
	b.requireSilent(lag.AlertGone)
	b.rounds(300, 1, 1)
	b.requireFiring(lag.AlertGone, lag.Page)
	b.requireFiring(lag.AlertHot, lag.Page, 0)
}

func TestBlindnessPerGroupAndPerPartitionSet(t *testing.T) {
	t.Parallel()
	b := newBench(t, lag.Defaults())
	b.tracker.Expect(0, 1, 2, 3)
	b.rounds(2, 1, 1)
	b.requireSilent(lag.AlertBlind)
	b.round(1, 1) // half of the partitions are in no answer
	if a, ok := b.firing(lag.AlertBlind); !ok || a.Pool != lag.SharedPool {
		t.Fatalf("alerts %+v", b.verdict.Alerts)
	}
	b.requireClass(3, lag.Unknown)
	b.rounds(3, 1, 1, 1, 1)
	b.requireSilent(lag.AlertBlind)
	b.group.Known = false
	b.rounds(3, 1, 1, 1, 1)
	if a, ok := b.firing(lag.AlertBlind); !ok || a.Pool != "" {
		t.Fatalf("alerts %+v", b.verdict.Alerts)
	}
}

func TestPoolsAreComparedApart(t *testing.T) {
	t.Parallel()
	b := newBench(t, lag.Defaults())
	b.tracker.SetPools(func(p int32) string {
		if p == 0 {
			return "acme"
		}
		return lag.SharedPool
	})
	b.rounds(2*forRounds, 20_000, 10, 10, 10) // 200 s late: a whale of its own
	if len(b.verdict.Alerts) != 0 || len(b.verdict.Pools) != 2 {
		t.Fatalf("pools %d alerts %+v", len(b.verdict.Pools), b.verdict.Alerts)
	}
	b.round(90_001, 10, 10, 10) // above max_delay, without a day of history
	b.requireFiring(lag.AlertSlow, lag.Page, 0)
	b.requireFiring(lag.AlertBehind, lag.Ticket)
}

func TestSlowLearnsAWeekAndFreezesAtOnset(t *testing.T) {
	t.Parallel()
	rule := lag.Defaults()
	rule.Interval, rule.KeepFiring = 10*time.Minute, 0
	b := newBench(t, rule)
	b.rounds(150, 24_000) // four minutes late for a day
	b.round(71_000)
	b.requireSilent(lag.AlertSlow) // below 3 × 240 s
	b.rounds(300, 73_000)
	b.requireFiring(lag.AlertSlow, lag.Page, 0) // a new habit does not excuse it
	b.round(24_000)
	b.requireSilent(lag.AlertSlow)
}

func TestSkewIsATicketAfterTenMinutesAndNotForTrickles(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		busy, others float64
		fires        bool
	}{
		"a whale among its peers": {400, 100, true},
		"even":                    {120, 100, false},
		"a trickle":               {1, 0, false},
		"one alone is used":       {50, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(1, 8, lag.Defaults())
			w.in = func(p, _ int) float64 {
				if p == 5 {
					return c.busy
				}
				return c.others
			}
			w.capacity = func(int, int) float64 { return 1000 }
			var alerts []lag.Alert
			for s := range 3600 {
				w.step(s)
				if s%10 != 0 {
					continue
				}
				alerts = w.observe(s).Alerts
				if s < 600 && len(alerts) != 0 {
					t.Fatalf("after %d s: %+v", s, alerts)
				}
			}
			if !c.fires {
				if len(alerts) != 0 {
					t.Fatalf("%+v", alerts)
				}
				return
			}
			if len(alerts) != 1 || alerts[0].Name != lag.AlertSkew || alerts[0].Severity != lag.Ticket || !slices.Equal(alerts[0].Partitions, []int32{5}) {
				t.Fatalf("%+v", alerts)
			}
		})
	}
}

// Members and brokers are compared by what all their partitions take, and bytes
// beside records; what nobody knows is not compared, and a move suspends it.
func TestSkewOfMembersBrokersAndBytes(t *testing.T) {
	t.Parallel()
	even := func(int32) float64 { return 100 }
	for name, c := range map[string]struct {
		in     func(p int32) float64
		mark   func(s *lag.Sample)
		uneven string // empty: nothing fires
		of     []int32
	}{
		"a member with most partitions": {even, func(s *lag.Sample) { s.Owner = max(s.Partition-4, 1) }, "records that come in per member", []int32{0, 1, 2, 3, 4, 5}},
		"a broker with most partitions": {even, func(s *lag.Sample) { s.Leader = max(s.Partition-4, 1) }, "records that come in per broker", []int32{0, 1, 2, 3, 4, 5}},
		"large records in one":          {even, func(s *lag.Sample) { s.ByteRate = 1e4 + 1e5*float64(s.Partition/7) }, "bytes that come in per partition", []int32{7}},
		"even":                          {even, func(s *lag.Sample) { s.Owner, s.Leader, s.ByteRate = s.Partition%2+1, s.Partition%4+1, 1e4 }, "", nil},
		"one member, one broker":        {even, func(s *lag.Sample) { s.Owner, s.Leader = 1, 1 }, "", nil},
		"hardly any bytes":              {even, func(s *lag.Sample) { s.ByteRate = float64(s.Partition) }, "", nil},
		"a whale on the move":           {func(p int32) float64 { return 100 + 900*float64(p/7) }, func(s *lag.Sample) { s.Moving = s.Partition == 7 }, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(1, 8, lag.Defaults())
			w.in = func(p, _ int) float64 { return c.in(int32(p)) }
			w.capacity, w.mark = func(int, int) float64 { return 5000 }, c.mark
			var alerts []lag.Alert
			for s := range 2400 {
				w.step(s)
				if s%10 == 0 {
					alerts = w.observe(s).Alerts
				}
			}
			if c.uneven == "" {
				if len(alerts) != 0 {
					t.Fatalf("%+v", alerts)
				}
				return
			}
			if len(alerts) != 1 || alerts[0].Name != lag.AlertSkew || alerts[0].Uneven != c.uneven || !slices.Equal(alerts[0].Partitions, c.of) {
				t.Fatalf("%+v", alerts)
			}
		})
	}
}

func TestMembersInExcessAreATicket(t *testing.T) {
	t.Parallel()
	b := newBench(t, lag.Defaults())
	b.group = lag.GroupSample{Known: true, Members: 5, Claims: 4}
	b.rounds(60, 1, 1, 1, 1)
	b.requireSilent(lag.AlertIdleMembers)
	b.rounds(1, 1, 1, 1, 1)
	b.requireFiring(lag.AlertIdleMembers, lag.Ticket)
	b.group.Members = 4
	b.rounds(forRounds, 1, 1, 1, 1)
	b.requireSilent(lag.AlertIdleMembers)
}

// Hot for half an hour each hour, and always held because it drains: nobody is
// paged, and somebody should look at it on Monday.
func TestHotForAQuarterOfSixHoursIsATicket(t *testing.T) {
	t.Parallel()
	b := newBench(t, lag.Defaults())
	hour := func() {
		l := int64(400_000)
		for range 180 {
			b.round(l, 10, 10, 10)
			l = max(l-6000+b.end%7, 0) // drains within ten minutes
			if l < 50_000 {
				l = 400_000
			}
		}
		b.rounds(180, 10, 10, 10, 10)
	}
	for range 3 {
		hour()
	}
	b.requireSilent(lag.AlertHot)
	hour()
	b.requireFiring(lag.AlertHot, lag.Ticket, 0)
	for range 6 {
		b.rounds(360, 10, 10, 10, 10)
	}
	b.requireSilent(lag.AlertHot)
}
