package consumer_test

import (
	"testing"
)

func TestHandlesEachTenantInOrder(t *testing.T) {
	c := newCluster(t, 2)
	c.produce(sequence(0, 50, "a", "b", "c")...)
	c.produce(sequence(1, 50, "d", "e")...)
	j := newJournal()
	w := c.start(c.config(), j.handle)
	j.waitFor(t, 250)
	if err := w.stop(); err != nil {
		t.Fatalf("Run: %v", err)
	}
	assertOrder(t, j.all())
	if got := len(j.all()); got != 250 {
		t.Errorf("%d handlings, want 250", got)
	}
	if c.committed(0) != 150 || c.committed(1) != 100 {
		t.Errorf("committed %d and %d, want 150 and 100", c.committed(0), c.committed(1))
	}
}
