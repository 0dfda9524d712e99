package consumer

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// spending is an engine that knows of nothing but what its partitions may read
// again.
func spending(partitions int, ratio float64) (*engine, []*partition) {
	e := &engine{cfg: &Config{RereadRatio: ratio}, parts: map[topicPartition]*partition{}}
	var parts []*partition
	for id := range int32(partitions) {
		p := &partition{topicPartition: topicPartition{"orders", id}}
		e.parts[p.topicPartition] = p
		parts = append(parts, p)
	}
	return e, parts
}

func TestAPartitionReadsAgainFromWhatOthersDoNotNeed(t *testing.T) {
	e, p := spending(3, 2)
	e.passFirst(p[0], 10<<20)
	e.passFirst(p[1], 10<<20)
	if e.spend(p[2], 30<<20); !e.affordable(p[2]) {
		t.Error("refused, although others earned 40 MiB")
	}
	e.spend(p[2], 2<<20)
	if e.affordable(p[2]) {
		t.Error("it draws on the savings of others")
	}
	for _, saver := range p[:2] {
		if e.spend(saver, rereadOwn-1); !e.affordable(saver) {
			t.Error("refused what it had saved for itself")
		}
	}
}

func TestWithoutARatioOnlyTimeEarns(t *testing.T) {
	e, p := spending(1, -1)
	e.passFirst(p[0], 1<<30)
	if e.affordable(p[0]) {
		t.Error("first reads earned something")
	}
	if e.passTime(p[0], time.Second); p[0].rereads.tokens != rereadRate {
		t.Errorf("a second earned %.0f bytes", p[0].rereads.tokens)
	}
}

// TestNoMoreIsSpentThanWasEarned lets partitions earn and spend at random, a
// piece at a time as re-reads do, against the sum of all that they earned.
func TestNoMoreIsSpentThanWasEarned(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(t, "partitions")
		e, parts := spending(n, 2)
		var earned, spent float64
		now := make([]time.Duration, n)
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			i := rapid.IntRange(0, n-1).Draw(t, "partition")
			switch rapid.IntRange(0, 2).Draw(t, "step") {
			case 0:
				bytes := rapid.IntRange(0, 64<<20).Draw(t, "bytes")
				e.passFirst(parts[i], bytes)
				earned += 2 * float64(bytes)
			case 1:
				d := time.Duration(rapid.IntRange(0, 100).Draw(t, "seconds")) * time.Second
				now[i] += d
				e.passTime(parts[i], now[i])
				earned += rereadRate * d.Seconds()
			case 2:
				if e.affordable(parts[i]) {
					e.spend(parts[i], rereadBytes)
					spent += rereadBytes
				}
			}
		}
		left := e.pot
		for _, p := range parts {
			left += p.rereads.tokens
		}
		if spent+left > earned+1 || spent > earned+float64(n*rereadBytes) {
			t.Fatalf("%.0f bytes spent and %.0f left of %.0f earned", spent, left, earned)
		}
		if e.pot < 0 || e.pot > rereadSaved*float64(n) {
			t.Fatalf("the pot holds %.0f bytes", e.pot)
		}
	})
}
