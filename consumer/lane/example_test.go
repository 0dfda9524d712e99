package lane_test

import (
	"fmt"
	"time"

	"github.com/tenantlane/tenantlane/consumer/lane"
)

// A worker takes lanes, handles their records without the lock that guards the
// scheduler, and releases them. The second record fails; only its lane waits.
func ExampleScheduler() {
	s, err := lane.New[string](lane.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	p := s.Assign("orders", 0, 1)
	for i, tenant := range []string{"acme", "acme", "globex"} {
		id := lane.ID{Tenant: []byte(tenant), Key: []byte(tenant)}
		s.Push(p, id, lane.Item[string]{Offset: int64(i), Rec: tenant})
	}
	var now time.Duration
	var batch lane.Batch[string]
	for s.Take(now, 1, &batch) > 0 {
		g := &batch.Grants[0]
		it := g.Items[0]
		now += time.Millisecond
		r := lane.Result{Done: 1, Busy: time.Millisecond}
		if it.Offset == 1 && g.Attempt == 0 {
			r = lane.Result{Outcome: lane.Retry, Delay: time.Second, Busy: time.Millisecond}
		}
		fmt.Println(it.Rec, it.Offset, "done:", r.Done)
		s.Release(g, r, now)
		if wake, ok := s.NextWake(); ok && s.Runnable() == 0 {
			now = wake
		}
	}
	fmt.Println("unfinished:", s.Records())
	// Output:
	// acme 0 done: 1
	// globex 2 done: 1
	// acme 1 done: 0
	// acme 1 done: 1
	// unfinished: 0
}
