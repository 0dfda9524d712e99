package consumer_test

import (
	"context"
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/consumer"
)

// letters reads so many records of the dead-letter topic's only partition.
func (c *cluster) letters(t *testing.T, n int64) []*kgo.Record {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.ConsumeTopics(topic+consumer.DeadLetterSuffix))
	if err != nil {
		t.Fatalf("making a client: %v", err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var all []*kgo.Record
	for int64(len(all)) < n {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("reading dead letters: %v", err)
		}
		all = append(all, fetches.Records()...)
	}
	return all
}

// The whale's first record hangs until its partition was read to the end: then
// its oldest records are dead-lettered, and it handles those that are near.
func TestRecordsOfALaneThatIsTooFarBehindReachTheDeadLetterTopicInOrder(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, kfake.SeedTopics(1, topic+consumer.DeadLetterSuffix))
	c.produce(sequence(0, 3000, "whale")...)
	c.produce(sequence(0, 20, "a", "b", "c")...)
	release := make(chan struct{})
	j := newJournal()
	l := newLedger()
	cfg := l.watch(c.config())
	cfg.MaxRecords, cfg.LaneRecords, cfg.MaxDistance, cfg.TooFar = 200, 32, 500, consumer.TooFarDeadLetter
	w := c.start(cfg, func(ctx context.Context, r *consumer.Record) error {
		if string(r.Tenant) == "whale" {
			select {
			case <-release:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return j.handle(ctx, r)
	})
	c.eventually(t, "the partition to be read to its end", func() bool {
		all := w.Progress()
		return len(all) == 1 && all[0].Next == 3060
	})
	if n := w.PausedPartitions(); n > 0 {
		t.Errorf("%d partitions are paused", n)
	}
	close(release)
	l.waitCommitted(t, 0, 3060)
	if err := w.stop(); err != nil {
		t.Fatalf("Run: %v", err)
	}
	handled := map[string]int{}
	for _, h := range j.all() {
		handled[h.tenant+h.value]++
	}
	written := c.PartitionInfo(topic+consumer.DeadLetterSuffix, 0).HighWatermark
	if want := int64(3060 - 500 - 200); written < want || int(written)+len(j.all()) != 3060 {
		t.Errorf("%d letters, want at least %d; %d handled", written, want, len(j.all()))
	}
	last := 0
	for _, r := range c.letters(t, written) {
		seq, err := strconv.Atoi(string(r.Value))
		if err != nil || seq <= last || string(r.Key) != "whale" || handled["whale"+string(r.Value)] > 0 {
			t.Fatalf("letter %s %s after %d, handled %d times", r.Key, r.Value, last, handled["whale"+string(r.Value)])
		}
		last = seq
	}
}
