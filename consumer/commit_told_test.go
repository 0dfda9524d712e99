package consumer

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantlane/tenantlane/consumer/offset"
)

// An application learns of no more names than every commit has room for, and of
// none at or above the frontier that is left then.
func TestWhatIsToldOfACommitIsNeverTakenBack(t *testing.T) {
	var lanes []offset.Lane
	for i := range 40 {
		lanes = append(lanes, offset.Lane{Name: uint32(i), Offset: 100 + int64(i/3)}) // three at each offset
	}
	c := pendingCommit{
		p:      &partition{topicPartition: topicPartition{"orders", 3}, identity: offset.Identity{Fingerprint: 1}, limit: offset.Limit{Chars: 260}},
		Commit: offset.Commit{Offset: 100, State: offset.State{Watermark: 100, Frontier: 500, Lanes: lanes}},
	}
	got := c.told()
	if n := c.p.names(); n != 10 || got.Frontier != 103 || len(got.Lanes) != 9 || got.Lanes[8].Offset != 102 {
		t.Errorf("%d names are sure, told %+v", n, got)
	}
	c.State.Lanes = lanes[:2]
	want := Committed{Topic: "orders", Partition: 3, Offset: 100, Frontier: 500, Lanes: []CommittedLane{{0, 100}, {1, 100}}}
	if diff := cmp.Diff(want, c.told()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
