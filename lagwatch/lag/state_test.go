package lag_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantlane/tenantlane/lagwatch/lag"
)

// A tracker that is stopped and restored at any round must say the same as one
// that went on.
func TestRestoredTrackerGoesOn(t *testing.T) {
	t.Parallel()
	for _, stop := range []int{0, onset / 2, onset + 100, onset + 290, onset + 400, onset + 900} {
		t.Run(fmt.Sprint(stop), func(t *testing.T) {
			t.Parallel()
			a, b := newWorld(3, 8, lag.Defaults()), newWorld(3, 8, lag.Defaults())
			for _, w := range []*world{a, b} {
				flood(w, 1)
				in := w.in
				w.in = func(p, s int) float64 { // it ends, and resolves
					if s > onset+700 {
						return 50
					}
					return in(p, s)
				}
			}
			for s := range onset + 3600 {
				a.step(s)
				b.step(s)
				if s%10 != 0 {
					continue
				}
				if s/10 == stop/10 {
					data, err := json.Marshal(b.tracker.State())
					if err != nil {
						t.Fatal(err)
					}
					var state lag.TrackerState
					if err := json.Unmarshal(data, &state); err != nil {
						t.Fatal(err)
					}
					b.tracker = lag.NewTracker(lag.Defaults(), nil)
					b.tracker.Restore(state)
				}
				if diff := cmp.Diff(a.observe(s).Alerts, b.observe(s).Alerts); diff != "" {
					t.Fatalf("second %d (-went on +restored):\n%s", s, diff)
				}
			}
		})
	}
}

// A state file may be damaged or of another rule: never a panic, and what is
// restored must go through rounds.
func FuzzRestore(f *testing.F) {
	w := newWorld(1, 3, lag.Defaults())
	flood(w, 1)
	w.run(onset+1200, onset)
	data, err := json.Marshal(w.tracker.State())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"partitions":[{"p":-5,"known":[1],"hot":[3],"next":1,"filled":99}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var state lag.TrackerState
		if json.Unmarshal(data, &state) != nil || len(state.Partitions) > 100 {
			return
		}
		tracker := lag.NewTracker(lag.Defaults(), nil)
		tracker.Restore(state)
		at := simStart
		for range 100 {
			at = at.Add(10 * time.Second)
			tracker.Observe(&lag.Round{At: at, Samples: []lag.Sample{
				{Partition: 0, Known: true, Committed: 1, Runnable: 1, Visible: 1, End: 5000, Stable: 5000, LossIn: -1, Delay: time.Hour},
				{Partition: 1, Known: true, Committed: 1, Runnable: 1, Visible: 1, End: 2, Stable: 2, LossIn: -1},
			}})
		}
	})
}
