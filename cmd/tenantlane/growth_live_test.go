package main

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tenantlane/tenantlane/internal/check"
)

// A topic of 4,096 slots goes from 32 partitions to 64 while a producer and a
// worker work on it, in rounds of which one is interrupted. Nothing is lost, and
// each tenant's records are handled in order.
func TestALiveTopicGrowsInRounds(t *testing.T) {
	brokers := startBroker(t)
	dir := t.TempDir()
	produced, handled, plan := filepath.Join(dir, "a.log"), filepath.Join(dir, "b.log"), filepath.Join(dir, "growth.json")
	runArgs(t, "topic", "create", "--topic", "live", "--partitions", "32", "--brokers", brokers).wantDone(t)
	path := tempFile(t, "routing.yaml", "version: 1\nrevision: 1\ntopics:\n  live: {partitions: 32, slots: 4096, producers: wrapped}\n")
	runArgs(t, inTopic(brokers, "table", "push", path, "--create")...).wantDone(t)
	runArgs(t, inTopic(brokers, "topic", "grow", "--partitions", "64")...).wantDone(t)
	runArgs(t, inTopic(brokers, "plan", "growth", "--from", "32", "--to", "64", "--write", plan)...).wantDone(t)

	var load, work result
	var working sync.WaitGroup
	working.Go(func() {
		load = runArgs(t, inTopic(brokers, "loadgen", "--topic", "live", "--count", "6000", "--rate", "2000", "--log-file", produced, "--log-level", "error")...)
	})
	working.Go(func() {
		work = runArgs(t, inTopic(brokers, "worker", "--topic", "live", "--group", "g", "--discard", "--log-file", handled,
			"--until-idle", "1500ms", "--format", "json", "--log-level", "error")...)
	})
	ctx, cancel := context.WithCancel(t.Context())
	table := openTable(t, brokers)
	working.Go(func() {
		defer cancel()
		for changed := table.Changed(); ; changed = table.Changed() {
			if topic, _ := table.Table().Topic("live"); len(topic.Moves()) > 3 {
				return
			}
			select {
			case <-changed:
			case <-t.Context().Done():
				return
			}
		}
	})
	run := inTopic(brokers, "move", "run", "--plan", plan, "--rate", "0")
	if first := runContext(t, ctx, run...); first.code != exitInterrupted || !strings.Contains(first.stderr, "of 2048 are where they go") {
		t.Errorf("exit code %d, stderr %q", first.code, first.stderr)
	}
	second := runArgs(t, run...)
	second.wantDone(t)
	if !strings.Contains(second.stderr, "2048 of 2048 are where they go") || strings.Count(second.stdout, "256 slots moved") > 6 {
		t.Errorf("the second run: %s%s", second.stdout, second.stderr)
	}
	working.Wait()
	load.wantDone(t)
	work.wantDone(t)
	report := decode[check.Report](t, runArgs(t, "verify", "--topic", "live", "--log", handled, "--produced", produced, "--format", "json"))
	if report.Produced != 6000 || report.Handled != 6000 || !report.OK() {
		t.Errorf("%+v", report)
	}
}
