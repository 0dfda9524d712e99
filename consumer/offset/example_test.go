package offset_test

import (
	"fmt"

	"github.com/tenantlane/tenantlane/consumer/offset"
)

func name(key string) uint32 { return offset.Name([]byte(key)) }

// A partition is read up to offset 1,000. One lane is parked at 120, another
// has unfinished work from 990 on. After a crash only these are handled again.
func ExampleTracker() {
	id := offset.Identity{Cluster: "q1Sh-9_ISia_zwGINzRvyQ", Topic: [16]byte{1}, Fingerprint: 42}
	t := offset.NewTracker(0)
	t.Admitted(1000, 3)
	c := t.Commit(id, []offset.Lane{
		{Name: name("acme"), Offset: 120, Parked: true},
		{Name: name("globex"), Offset: 990},
	}, offset.Limit{})
	fmt.Println("commit", c.Offset, "frontier", c.State.Frontier)

	was, why := offset.Open(c.Metadata, id, c.Offset)
	fmt.Println("the metadata is", why)
	t, _ = offset.Resume(was, 0)
	fmt.Println("read on at", t.Next())

	lane, match := t.Judge(120, 120, name("acme")) // a re-read brings the record at 120
	fmt.Println(match, "parked:", lane.Parked)
	// Output:
	// commit 120 frontier 1000
	// the metadata is valid
	// read on at 1000
	// exact parked: true
}
