package lane

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestRateOfASteadyTenantIsItsRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "start"))
		each := time.Duration(rapid.Int64Range(int64(time.Millisecond), int64(time.Second)).Draw(t, "each"))
		n := rapid.IntRange(1, 2000).Draw(t, "events")
		var s speed
		for i := range n {
			s.add(1, start+time.Duration(i+1)*each)
		}
		at := start + time.Duration(n)*each
		if at-start-each < time.Second {
			return // taken over a second, whatever the life
		}
		want := 1 / each.Seconds()
		// One event more or less, of those in the shortest time looked at.
		if got := s.rate(at); math.Abs(got-want) > 0.02*want+2 {
			t.Fatalf("%v events a second after %v, want %v", got, at-start, want)
		}
	})
}

func TestRateOfAnIdleTenantFallsToNothing(t *testing.T) {
	var s speed
	if got := s.rate(time.Hour); got != 0 {
		t.Errorf("rate %v before anything", got)
	}
	s.add(1000, time.Second)
	if got := s.rate(time.Second); got != 1000 {
		t.Errorf("rate %v at once, want all of it over a second", got)
	}
	before := math.Inf(1)
	for at := 2 * time.Second; at < 30*time.Second; at += time.Second {
		got := s.rate(at)
		if got > before {
			t.Errorf("rate rises to %v at %v without an event", got, at)
		}
		before = got
	}
	if before != 0 {
		t.Errorf("rate %v twenty seconds after the last event", before)
	}
}
