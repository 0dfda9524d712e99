package lag_test

import (
	"slices"
	"testing"
	"time"

	"github.com/tenantlane/tenantlane/lagwatch/lag"
)

// bench drives a tracker round by round with lags and delays given by hand.
type bench struct {
	t       *testing.T
	tracker *lag.Tracker
	rule    lag.Rule
	now     time.Time
	group   lag.GroupSample
	topicID [16]byte
	retain  time.Duration
	edit    func(s *lag.Sample)
	end     int64
	verdict *lag.Verdict
}

func newBench(t *testing.T, rule lag.Rule) *bench {
	t.Helper()
	return &bench{
		t: t, tracker: lag.NewTracker(rule, nil), rule: rule, now: simStart,
		group: lag.GroupSample{Known: true, Members: 2}, end: 1 << 40, edit: func(*lag.Sample) {},
	}
}

const unknownLag = -1

// round observes one round: per partition its lag, and a delay in proportion
// (one second per 100 records). Commits move with the ends.
func (b *bench) round(lags ...int64) {
	b.t.Helper()
	b.now = b.now.Add(b.rule.Interval)
	b.end += 1000
	samples := make([]lag.Sample, len(lags))
	for i, l := range lags {
		samples[i] = lag.Sample{Partition: int32(i)}
		if l == unknownLag {
			continue
		}
		commit := b.end - l
		samples[i] = lag.Sample{
			Partition: int32(i), Known: true, Committed: commit, Runnable: commit, Visible: commit,
			End: b.end, Stable: b.end, LossIn: -1, Owned: true, Delay: time.Duration(l) * time.Second / 100,
		}
		b.edit(&samples[i])
	}
	b.verdict = b.tracker.Observe(&lag.Round{
		At: b.now, Samples: samples, Group: b.group, TopicID: b.topicID, Retention: b.retain,
	})
}

func (b *bench) rounds(n int, lags ...int64) {
	b.t.Helper()
	for range n {
		b.round(lags...)
	}
}

// firing returns the alert of that name, if it fires.
func (b *bench) firing(name string) (lag.Alert, bool) {
	i := slices.IndexFunc(b.verdict.Alerts, func(a lag.Alert) bool { return a.Name == name })
	if i < 0 {
		return lag.Alert{}, false
	}
	return b.verdict.Alerts[i], true
}

func (b *bench) requireFiring(name string, severity lag.Severity, partitions ...int32) {
	b.t.Helper()
	a, ok := b.firing(name)
	if !ok {
		b.t.Fatalf("%s does not fire; alerts %+v", name, b.verdict.Alerts)
	}
	if a.Severity != severity || !slices.Equal(a.Partitions, partitions) {
		b.t.Fatalf("%s: %v partitions %v, want %v %v", name, a.Severity, a.Partitions, severity, partitions)
	}
}

func (b *bench) requireSilent(name string) {
	b.t.Helper()
	if a, ok := b.firing(name); ok {
		b.t.Fatalf("%s fires: %+v", name, a)
	}
}

func (b *bench) requireClass(partition int, want lag.Class) {
	b.t.Helper()
	if got := b.verdict.Pools[0].Partitions[partition].Class; got != want {
		b.t.Fatalf("partition %d is %v, want %v", partition, got, want)
	}
}

// forRounds is how many rounds make a window full.
const forRounds = 30

func TestHotFiresAfterForAndNamesEveryPartitionOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, lag.Defaults())
	b.rounds(forRounds-1, 9000, 10, 10, 9500)
	b.requireSilent(lag.AlertHot)
	b.requireClass(0, lag.Hot)
	b.round(9100, 10, 10, 9600)
	b.requireFiring(lag.AlertHot, lag.Critical, 0, 3)
	if got := b.verdict.Pools[0].Baseline; got != 1000.0/3 {
		t.Fatalf("baseline %v, want the floor", got)
	}
}

func TestPairAndTripleCanFire(t *testing.T) {
	t.Parallel()
	for _, peers := range [][]int64{{10}, {10, 20}} {
		b := newBench(t, lag.Defaults())
		b.rounds(forRounds, append([]int64{9000}, peers...)...)
		b.requireFiring(lag.AlertHot, lag.Critical, 0)
	}
}

func TestFloorsHoldBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lag   int64
		delay time.Duration
	}{
		"below min_lag":   {999, 10 * time.Minute},
		"below min_delay": {90_000, 59 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, lag.Defaults())
			b.edit = func(s *lag.Sample) {
				if s.Partition == 0 {
					s.Delay = c.delay
				}
			}
			b.rounds(2*forRounds, c.lag, 0, 0, 0)
			b.requireSilent(lag.AlertHot)
		})
	}
}

func TestPlainRuleIsReachableByFlags(t *testing.T) {
	t.Parallel()
	rule := lag.Rule{Interval: time.Second, Ratio: 3}
	b := newBench(t, rule)
	b.round(7, 2, 2, 2)
	b.requireFiring(lag.AlertHot, lag.Page, 0)
	b.round(6, 2, 2, 2)
	b.requireFiring(lag.AlertHot, lag.Page, 0)
	b.round(3, 2, 2, 2)
	b.requireSilent(lag.AlertHot)
}

func TestUnknownNeverResolvesAndNeverFires(t *testing.T) {
	t.Parallel()
	b := newBench(t, lag.Defaults())
	b.rounds(forRounds, 9000, 10, 10, 10)
	b.requireFiring(lag.AlertHot, lag.Critical, 0)
	b.rounds(1000, unknownLag, 10, 10, 10)
	a, _ := b.firing(lag.AlertHot)
	if !slices.Equal(a.Partitions, []int32{0}) {
		t.Fatalf("after blindness %+v", b.verdict.Alerts)
	}
	b.requireClass(0, lag.Unknown)
	if p := b.verdict.Pools[0].Partitions[0]; p.Known || p.Lag != 0 {
		t.Fatalf("unknown partition reports %+v", p)
	}
	b.requireFiring(lag.AlertBlind, lag.Page)
}

func TestBlindnessStandsTheWindowStill(t *testing.T) {
	t.Parallel()
	b := newBench(t, lag.Defaults())
	b.rounds(forRounds-1, 9000, 10, 10, 10)
	b.rounds(100, unknownLag, unknownLag, unknownLag, unknownLag)
	b.requireSilent(lag.AlertHot)
	b.round(9000, 10, 10, 10)
	b.requireFiring(lag.AlertHot, lag.Critical, 0)
}

// What was hot before half an hour without sight says nothing about now.
func TestOldEvidenceDoesNotCount(t *testing.T) {
	t.Parallel()
	b := newBench(t, lag.Defaults())
	b.rounds(forRounds-1, 9000, 10, 10, 10)
	b.rounds(200, unknownLag, unknownLag, unknownLag, unknownLag)
	b.rounds(forRounds-1, 9000, 10, 10, 10)
	b.requireSilent(lag.AlertHot)
	b.round(9000, 10, 10, 10)
	b.requireFiring(lag.AlertHot, lag.Critical, 0)
}

func TestClearHasToHold(t *testing.T) {
	t.Parallel()
	b := newBench(t, lag.Defaults())
	b.rounds(forRounds, 9000, 10, 10, 10)
	b.rounds(29, 100, 10, 10, 10)
	b.round(9000, 10, 10, 10) // starts the wait anew
	b.rounds(29, 100, 10, 10, 10)
	b.rounds(50, unknownLag, 10, 10, 10) // and silence does not count
	a, ok := b.firing(lag.AlertHot)
	if !ok || !slices.Equal(a.Partitions, []int32{0}) {
		t.Fatalf("resolved too early: %+v", b.verdict.Alerts)
	}
	b.round(100, 10, 10, 10)
	b.requireSilent(lag.AlertHot)
}

// The plain rule resolves here, while everything got worse.
func TestPeersSinkingTooDoesNotResolve(t *testing.T) {
	t.Parallel()
	b := newBench(t, lag.Defaults())
	b.rounds(forRounds, 90_000, 10, 10, 10)
	b.rounds(200, 95_000, 90_000, 90_000, 90_000)
	a, ok := b.firing(lag.AlertHot)
	if !ok || !slices.Equal(a.Partitions, []int32{0}) {
		t.Fatalf("resolved while its peers sank: %+v", b.verdict.Alerts)
	}
	b.requireFiring(lag.AlertBehind, lag.Ticket)
}

func TestDrainingHoldsThePage(t *testing.T) {
	t.Parallel()
	b := newBench(t, lag.Defaults())
	l := int64(400_000)
	for range 2 * forRounds {
		b.round(l, 10, 10, 10)
		l -= 6000 // clears within 10 minutes
	}
	b.requireSilent(lag.AlertHot)
	if v := b.verdict.Pools[0].Partitions[0]; v.Class != lag.Recovering || v.Hold != lag.HoldDraining {
		t.Fatalf("held as %+v", v)
	}
	b.rounds(15, l, 10, 10, 10)
	b.requireFiring(lag.AlertHot, lag.Critical, 0)
}

func TestRebalanceSuppressesWithinItsBudget(t *testing.T) {
	t.Parallel()
	b := newBench(t, lag.Defaults())
	b.rounds(forRounds-1, 9000, 10, 10, 10)
	b.group.Rebalancing = true
	b.rounds(29, 9000, 10, 10, 10)
	b.requireSilent(lag.AlertHot)
	b.requireSilent(lag.AlertRebalanceStuck)
	b.rounds(2, 9000, 10, 10, 10)
	b.requireFiring(lag.AlertRebalanceStuck, lag.Ticket)
	b.requireFiring(lag.AlertHot, lag.Critical, 0)
}

func TestStuckNeedsNoPeersAndNoMinLag(t *testing.T) {
	t.Parallel()
	b := newBench(t, lag.Defaults())
	commit := b.end
	b.edit = func(s *lag.Sample) {
		s.Committed, s.Runnable, s.Visible = commit, commit, commit
		s.End, s.Stable = commit+1, commit+1
		s.Delay = b.now.Sub(simStart)
	}
	b.rounds(60, 1)
	b.requireSilent(lag.AlertStuck)
	b.rounds(2, 1)
	b.requireFiring(lag.AlertStuck, lag.Page, 0)
	b.requireClass(0, lag.Stuck)
}

// A group that reads committed records and has caught up leaves its commit
// below the markers at the tail for ever.
func TestCaughtUpBelowATransactionalTailIsNotStuck(t *testing.T) {
	t.Parallel()
	b := newBench(t, lag.Defaults())
	commit := b.end
	probed := lag.None
	b.edit = func(s *lag.Sample) {
		s.Committed, s.Runnable, s.Visible = commit, commit, probed
		s.End, s.Stable = commit+7, commit+7
		s.Delay = b.now.Sub(simStart)
	}
	b.rounds(10, 7, 7)
	if !b.verdict.Pools[0].Partitions[0].Probe {
		t.Fatal("does not ask for a probe")
	}
	probed = commit + 7
	b.rounds(200, 7, 7)
	if len(b.verdict.Alerts) != 0 {
		t.Fatalf("alerts for a group that has caught up: %+v", b.verdict.Alerts)
	}
}

func TestProbeThatNeverComesDoesNotHideStuck(t *testing.T) {
	t.Parallel()
	b := newBench(t, lag.Defaults())
	commit := b.end
	b.edit = func(s *lag.Sample) {
		s.Committed, s.Runnable, s.Visible = commit, commit, lag.None
		s.Delay = b.now.Sub(simStart)
	}
	b.rounds(61, 7)
	b.requireSilent(lag.AlertStuck)
	b.rounds(5, 7)
	b.requireFiring(lag.AlertStuck, lag.Page, 0)
}

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

func TestObserveDoesNotAllocate(t *testing.T) {
	w := newWorld(1, 32, lag.Defaults())
	flood(w, 1)
	w.run(onset+1200, onset)
	s := onset + 1200
	if n := testing.AllocsPerRun(100, func() { s += 10; w.observe(s) }); n != 0 {
		t.Fatalf("a round allocates %v times while an alert fires", n)
	}
}

func BenchmarkObserve(b *testing.B) {
	for _, n := range []int{32, 320} {
		b.Run(time.Duration(n).String()[:len(time.Duration(n).String())-2]+" partitions", func(b *testing.B) {
			w := newWorld(1, n, lag.Defaults())
			flood(w, 1)
			w.run(onset+1200, onset)
			round := &lag.Round{Samples: w.samples, Group: lag.GroupSample{Known: true, Members: 4}}
			at := simStart.Add(time.Hour)
			b.ReportAllocs()
			for b.Loop() {
				at = at.Add(10 * time.Second)
				round.At = at
				w.tracker.Observe(round)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/partition")
		})
	}
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
			l = max(l-6000+int64(b.end%7), 0) // drains within ten minutes
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
