package consumer

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kgo"
)

// stageRecords stages records of "orders", of one tenant each, for the
// assignment that is open.
func (b *bench) stageRecords(a *admission, id int32, from, to int64) {
	fetch := kgo.FetchPartition{Partition: id, HighWatermark: to}
	for at := from; at < to; at++ {
		fetch.Records = append(fetch.Records, &kgo.Record{
			Topic: "orders", Partition: id, Offset: at, Key: []byte("t" + strconv.FormatInt(at, 10)), Value: []byte{'v'},
		})
	}
	a.stage.fill("orders", b.opened(topicPartition{"orders", id}), &fetch)
}

// A poll may bring more than there is room for: the rest waits in the stage,
// and nothing of it is lost or admitted beyond the bound.
func TestStageWaitsForRoom(t *testing.T) {
	var release chan struct{}
	s := &script{do: func(context.Context, *Record) error { <-release; return nil }}
	inBubble(t, Config{MaxRecords: 8, Concurrency: 4}, s.handle, func(b *bench) {
		release = make(chan struct{})
		p := b.admitted(0, "")
		var a admission
		b.stageRecords(&a, 0, 0, 30)
		if n := b.admitStaged(&a); n != 8 || b.left() != 8 || a.stage.empty() {
			t.Fatalf("%d records admitted, %d in the worker, want 8 of 30", n, b.left())
		}
		if n := b.admitStaged(&a); n != 0 {
			t.Fatalf("%d records admitted to a full worker", n)
		}
		close(release)
		for !a.stage.empty() {
			n := b.admitStaged(&a)
			if left := b.left(); left > 8 {
				t.Fatalf("%d records in the worker, want at most 8", left)
			}
			if n == 0 {
				<-b.room
			}
		}
		synctest.Wait()
		if got := b.watermark(p); got != 30 {
			t.Errorf("watermark %d, want 30", got)
		}
	})
}

// What was polled under an assignment that has ended is not admitted to the
// next one of the same partition, nor does it begin that one anew.
func TestStagedPartOfAnEndedAssignmentIsDropped(t *testing.T) {
	s := &script{}
	inBubble(t, Config{MaxRecords: 8, Concurrency: 1}, s.handle, func(b *bench) {
		p := b.admitted(0, "a:1 a:2 a:3 a:4 a:5")
		synctest.Wait()
		var a admission
		b.stageRecords(&a, 0, 3, 9)
		b.close([]*partition{p})
		again := b.open(p.topicPartition, begin{offset: 5, epoch: -1, committed: unknownOffset}, 2)
		b.admitStaged(&a)
		synctest.Wait()
		if got := b.watermark(again); got != 5 || b.opened(p.topicPartition) != again || !a.stage.empty() {
			t.Errorf("watermark of the next assignment is %d, want 5; it is still open: %v; the stage is empty: %v",
				got, b.opened(p.topicPartition) == again, a.stage.empty())
		}
	})
}

// A log that went back begins the assignment anew in the middle of what is
// staged: the rest belongs to what it began anew as.
func TestStagedRestFollowsAnAssignmentBegunAnew(t *testing.T) {
	s := &script{}
	inBubble(t, Config{MaxRecords: 8, Concurrency: 1}, s.handle, func(b *bench) {
		p := b.admitted(0, "a:1 a:2 a:3 a:4 a:5 a:6 a:7 a:8 a:9 a:10")
		synctest.Wait()
		var a admission
		b.stageRecords(&a, 0, 3, 9)
		part, last := a.stage.front().cut(2)
		b.admit(&a, "orders", p, &part)
		if last || !p.gone.Load() {
			t.Fatalf("the cut of 2 of 6 is the last: %v; the assignment is over: %v, want false and true", last, p.gone.Load())
		}
		b.admitStaged(&a)
		synctest.Wait()
		if got := b.watermark(b.opened(p.topicPartition)); got != 9 {
			t.Errorf("watermark %d, want 9", got)
		}
	})
}
