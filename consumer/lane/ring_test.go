package lane

import "testing"

func TestRingsAreUsedAgainAndBounded(t *testing.T) {
	var r rings[int]
	ring := r.get(64)
	r.put(ring)
	if again := r.get(64); &again[0] != &ring[0] {
		t.Error("a ring that was given back was not used again")
	}
	for range 2 * keepRings / 1024 {
		r.put(make([]Item[int], 1024))
	}
	if r.room > keepRings {
		t.Errorf("rings for %d records are kept, at most %d wanted", r.room, keepRings)
	}
	r.put(nil)
	if n := len(r.get(1 << ringSizes)); n != 1<<ringSizes {
		t.Errorf("a ring for %d records, want %d", n, 1<<ringSizes)
	}
}
