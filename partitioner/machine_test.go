package partitioner

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenantlane/tenantlane/rebalance/move"
)

// A gate opens and closes for moves and late records exactly as move.Gate does,
// which the exhaustive check of package move explores.
func TestGatesDecideAsTheExploredOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var (
			plenty = limit{math.MaxInt64, math.MaxInt64}
			s      = newGates(&budget{max: plenty}).shard([]byte("acme"))
			g      = s.gate([]byte("acme"))
			twin   move.Gate
			term   = uint64(1)
			sent   []*flight
			seq    uint64
		)
		take := func() *flight {
			i := rapid.IntRange(0, len(sent)-1).Draw(t, "of")
			f := sent[i]
			sent = append(sent[:i], sent[i+1:]...)
			return f
		}
		t.Repeat(map[string]func(*rapid.T){
			"enter": func(t *rapid.T) {
				seq++
				f := &flight{tenant: []byte("acme"), size: 1, seq: seq, term: term}
				_, how := s.enter(f, g, plenty, 0)
				if want := twin.Enter(term); (how == passed) != want {
					t.Fatalf("a record enters: %v, want %v", how, want)
				}
				if how == passed {
					sent = append(sent, f)
				}
			},
			"register anew": func(*rapid.T) { term++ },
			"answered or failed": func(*rapid.T) {
				if len(sent) > 0 {
					s.give(g, take().size, 0)
					twin.Answered(true)
				}
			},
			"answered late": func(*rapid.T) {
				if len(sent) > 0 {
					s.keep(g, take(), 0)
					twin.Answered(false)
				}
			},
			"decide": func(t *rapid.T) {
				v := rapid.SampledFrom([]verdict{undecided, acknowledge, giveUp}).Draw(t, "verdict")
				s.decide(func(*flight) verdict {
					if v != undecided {
						twin.Decided(move.Acknowledge)
					}
					return v
				})
			},
			"a move opens": func(*rapid.T) {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.holdForMove(g)
				twin.Move(true)
			},
			"the move ends": func(*rapid.T) {
				s.release(func(*gate) bool { return false })
				twin.Move(false)
			},
			"": func(t *rapid.T) {
				if open := g.held == 0; open != twin.Open() {
					t.Fatalf("open is %v, want %v", open, twin.Open())
				}
				if n := g.inFlight(false); n != twin.InFlight() {
					t.Fatalf("%d in flight, want %d", n, twin.InFlight())
				}
			},
		})
	})
}
