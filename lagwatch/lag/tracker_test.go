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
