package lane

import (
	"strconv"
	"testing"
)

// TestKeysOfOnePlaceStayApart pushes to lanes whose keys differ in the middle
// alone, so that each drives the other out of what a partition remembers, and
// again after they were freed.
func TestKeysOfOnePlaceStayApart(t *testing.T) {
	s, err := New[string](Config{})
	if err != nil {
		t.Fatal(err)
	}
	p := s.Assign("t", 0, 1)
	keys := make([][]byte, 2)
	for i := range keys {
		keys[i] = []byte("aaaaaaaa" + strconv.Itoa(i) + "zzzzzzzz")
	}
	if p.recent.place(keys[0]) != p.recent.place(keys[1]) {
		t.Fatal("the keys have two places")
	}
	var b Batch[string]
	for round := range int64(3) {
		for i := range int64(6) {
			key := keys[i%2]
			s.Push(p, ID{Tenant: key, Key: key}, Item[string]{Offset: 10*round + i, Rec: string(key)})
		}
		if p.Lanes() != 2 {
			t.Fatalf("%d lanes of two keys", p.Lanes())
		}
		for s.Records() > 0 {
			if s.Take(0, 2, &b) == 0 {
				t.Fatal("nothing is granted")
			}
			for i := range b.Grants {
				checkTenant(t, &b.Grants[i])
				s.Release(&b.Grants[i], Result{Done: len(b.Grants[i].Items)}, 0)
			}
		}
		if *p.recent.place(keys[0]) != nil {
			t.Fatal("a freed lane is remembered")
		}
	}
}

func checkTenant(t *testing.T, g *Grant[string]) {
	t.Helper()
	for _, it := range g.Items {
		if it.Rec != string(g.Tenant()) {
			t.Errorf("offset %d of %s is in the lane of %s", it.Offset, it.Rec, g.Tenant())
		}
	}
}
