package consumer_test

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tenantlane/tenantlane/consumer"
)

// peers are mistakes that other consumer runtimes make or made, each with the
// tests that hold this one to not making it.
var peers = []struct {
	mistake string
	tests   []string
}{
	{"a late worker commits a revoked partition's offsets", []string{"TestRevokedPartitionIsNotCommittedByALateWorker", "TestRevokedPartitionsLateHandlingChangesNothing"}},
	{"offsets go backwards after a rebalance", []string{"TestHandOverLosesRepeatsAndReordersNothing"}}, // its commitLog fails it
	{"a pause survives reassignment", []string{"TestPauseForADistantLaneDoesNotSurviveReassignment", "TestAPauseSurvivesNoReassignment"}},
	{"a paused partition's buffer is thrown away and fetched again in a loop", []string{"TestFullWorkerStopsPollingAndStaysInTheGroup"}},
	{"a poll loop blocks on a full queue and is evicted from the group", []string{"TestFullWorkerStopsPollingAndStaysInTheGroup"}},
	{"metadata is too long, so that every commit fails", []string{"TestMetadataThatABrokerRefusesIsHalvedUntilItIsTaken", "TestMetadataThatIsTooLongIsHalvedAndTaken"}},
	{"a record without a key", []string{"TestRecordsWithoutATenant", "TestNoTenantLanesOfTwoPartitionsRunTogether"}},
	{"a null value is taken for an error", []string{"TestTombstoneIsARecordLikeAnyOther"}},
	{"transaction markers leave the watermark waiting", []string{"TestTransactionMarkersAtTheEndAreCommittedOver"}},
	{"compaction gaps leave the watermark waiting", []string{"TestMarkersAndGapsDoNotHoldTheWatermark"}},
	{"the log is truncated", []string{"TestAnUncleanElectionCostsRepeatsAndSkipsNoNewRecord", "TestOffsetsThatGoBackBeginAnew"}},
	{"the offset is reset in mid-run", []string{"TestRetentionThatOvertakesARunningWorkerIsCounted", "TestOffsetsThatGoBackBeginAnew"}},
	{"a topic is deleted and made again", []string{"TestTopicMadeAgainIsConsumedAnew"}},
	{"a retry loop spins at full speed", []string{"TestRetryLoopDoesNotSpin", "TestBatchHandlerThatFinishesNothingBacksOff"}},
	{"a failing record blocks shutdown", []string{"TestDrainHandlesWhatIsBufferedAndLeavesWhatFails"}},
	{"shutdown waits for ever for a stuck handler", []string{"TestShutdownDoesNotWaitForEverForAStuckHandler", "TestDrainEndsAtItsDeadlineDespiteAStuckHandler"}},
	{"a map of tenants has no bound", []string{"TestHeapIsFlatOverAMillionTenants", "TestManyTenantsLeaveNoMemoryBehind"}},
	{"a tenant is freed while its retry is pending", []string{"TestATenantIsNotFreedWhileItsRetryIsPending"}},
	{"a handler's panic kills the worker silently", []string{"TestPanicIsAnErrorAndTheWorkerLives", "TestGoexitOfAHandlerDoesNotLoseTheWorker"}},
	{"work is done twice at each deploy since shutdown did not wait", []string{"TestADeployRepeatsNothing", "TestHandOverLosesRepeatsAndReordersNothing"}},
	{"a timer for each record", []string{"TestAThousandBackOffsTakeOneTimer"}},
	{"leases by time are compared across machines", []string{"TestTokensOrderOwnersWithoutAClock"}},
}

func TestEachMistakeOfPeersHasItsTest(t *testing.T) {
	t.Parallel()
	tests := make(map[string]bool)
	for _, dir := range []string{".", "lane", "offset", "../integration"} {
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d test files, %v", dir, len(files), err)
		}
		for _, file := range files {
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range parsed.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
					tests[f.Name.Name] = true
				}
			}
		}
	}
	for _, p := range peers {
		for _, name := range p.tests {
			if !tests[name] {
				t.Errorf("%s: there is no %s", p.mistake, name)
			}
		}
	}
}

// A worker that is full does not fetch on, and retention passes it by. It goes
// on at the log's new start, and says how much is gone.
func TestRetentionThatOvertakesARunningWorkerIsCounted(t *testing.T) {
	t.Parallel()
	const first, second, left = 300, 200, 50
	c := newCluster(t, 1)
	c.produce(spread(1, first, 1, 1)...)
	release := make(chan struct{})
	j, l := newJournal(), newLedger()
	registry := prometheus.NewRegistry()
	cfg := l.watch(c.config())
	cfg.MaxRecords, cfg.Registerer = 50, registry
	w := c.start(cfg, func(ctx context.Context, r *consumer.Record) error {
		select {
		case <-release:
		case <-ctx.Done():
			return ctx.Err()
		}
		return j.handle(ctx, r)
	})
	c.eventually(t, "the worker to be full", func() bool {
		n := 0
		for i := range first {
			n += w.Depth(fmt.Appendf(nil, "tenant-%d", i))
		}
		return n == 50
	})
	c.produce(spread(1, second, 2, 1)...)
	if err := c.DeleteRecords(topic, 0, first+second-left); err != nil {
		t.Fatalf("deleting records: %v", err)
	}
	close(release)
	l.waitCommitted(t, 0, first+second)
	lost := counter(t, registry, "tenantlane_consumer_lost_records_total", "0")
	if err := w.stop(); err != nil {
		t.Fatalf("Run: %v", err)
	}
	if n := distinct(j.all()); int(lost) != first+second-n || n < left {
		t.Errorf("%d of %d records handled, %v counted as lost", n, first+second, lost)
	}
}

// Three workers are replaced one after the other, as a deploy does.
func TestADeployRepeatsNothing(t *testing.T) {
	t.Parallel()
	const partitions, tenants, rounds = 6, 30, 7
	c := newCluster(t, partitions)
	c.commitLog()
	j := newJournal()
	start := func() *worker {
		l := newLedger()
		w := c.start(l.watch(c.config()), j.handle)
		l.waitAssigned(t, 1)
		return w
	}
	sent := 0
	load := func() {
		c.produce(spread(partitions, tenants, sent+1, 40)...)
		sent += 40
	}
	load()
	workers := []*worker{start(), start(), start()}
	for range 3 {
		load()
		if err := workers[0].stop(); err != nil {
			t.Errorf("Run: %v", err)
		}
		load()
		workers = append(workers[1:], start())
	}
	j.waitFor(t, rounds*40*tenants)
	for _, w := range workers {
		if err := w.stop(); err != nil {
			t.Errorf("Run: %v", err)
		}
	}
	assertOrder(t, j.all())
	if n := len(j.all()); n != rounds*40*tenants {
		t.Errorf("%d handlings of %d records", n, rounds*40*tenants)
	}
}

// Of two owners of a partition the later one has the higher token, whatever
// their clocks say.
func TestTokensOrderOwnersWithoutAClock(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	j := newJournal()
	first, second := newLedger(), newLedger()
	w1 := c.start(first.watch(c.config()), j.handle)
	first.waitAssigned(t, 2)
	w2 := c.start(second.watch(c.config()), j.handle)
	second.waitAssigned(t, 1)
	moved := second.assigned[0]
	if err := w2.stop(); err != nil {
		t.Errorf("Run: %v", err)
	}
	first.waitAssigned(t, 3)
	if err := w1.stop(); err != nil {
		t.Errorf("Run: %v", err)
	}
	var owners []consumer.Token
	for _, a := range first.assigned {
		if a.Partition == moved.Partition {
			owners = append(owners, a.Token)
		}
	}
	if len(owners) != 2 || owners[0].Generation >= moved.Generation || moved.Generation >= owners[1].Generation || owners[0].Epoch >= owners[1].Epoch {
		t.Errorf("owners had %+v, then %+v, then %+v", owners[:1], moved.Token, owners[1:])
	}
}
