package top_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/tenantlane/tenantlane/internal/top"
	"github.com/tenantlane/tenantlane/lagwatch"
	"github.com/tenantlane/tenantlane/lagwatch/lag"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// busy is a cluster where one tenant's import makes a partition hot.
func busy() *top.Snapshot {
	return &top.Snapshot{
		At: noon,
		Seen: &lagwatch.Evaluation{Cluster: "c1", Blind: true, Unknown: 1, Groups: []lagwatch.PoolEvaluation{
			{
				Group: "billing", Topic: "orders", Pool: "shared", Baseline: 120, Skew: 83.3, Members: 2,
				Partitions: []lagwatch.PartitionEvaluation{
					{Partition: 0, Known: true, Committed: true, Lag: 120, Delay: 2 * time.Second, Ratio: 1, Class: lag.OK},
					{Partition: 1, Known: true, Committed: true, Lag: 10000, Delay: 90 * time.Second, DelayBound: true, Ratio: 83.3, Class: lag.Hot, Firing: true},
					{Partition: 2, Class: lag.Unknown},
					{Partition: 3, Known: true},
				},
				Firing: []lagwatch.Firing{{
					Alert: "partition_hot", Partitions: []int32{1}, Tenant: "acme\x1b[31m", Share: 0.93, Severity: "page", Since: noon.Add(-5 * time.Minute),
				}},
			},
			{Group: "billing", Topic: "orders", Pool: "whale-a", Members: 2},
		}},
		Workers: 1,
		Tenants: []top.Tenant{
			{Worker: "w1", Name: "small", State: "running", Depth: 3, Running: 1, Rate: 2, ETA: time.Second},
			{Worker: "w1", Name: "bad", State: "parked", Depth: 1, ETA: -1},
			{Worker: "w1", Name: "acme", State: "waiting", Depth: 4000, Skipped: 9, Running: 1, Rate: 100, ETA: time.Minute},
		},
		Notes: []string{"one worker joins\r\x1b[2J"},
	}
}

func TestRender(t *testing.T) {
	want := strings.TrimPrefix(`
tenantlane  12:00:00  cluster c1  groups 1  partitions 4  unknown 1  alerts 1
not everything could be seen: what is missing here may be worse than what is shown

PAGE  partition_hot  billing/orders  [1]  0x61636d651b5b33316d 93 %  for 5m

billing / orders / shared  (pool 1 of 2)  baseline 120  skew 83.3  members 2
PARTITION    LAG    DELAY  RATIO  CLASS
1          10000  ≥ 1m30s   83.3  HOT      ████████████████████████
2              ?        ?      ?  UNKNOWN
0            120       2s    1.0  OK
3              -        -      -  OK

tenants at 1 workers
TENANT  STATE    DEPTH  RUNNING     RATE  ETA  WORKER
bad     parked       1        0    0.0/s    -  w1
acme    waiting  4000+        1  100.0/s   1m  w1
small   running      3        1    2.0/s   1s  w1

one worker joins  [2J`, "\n")
	if diff := cmp.Diff(want, top.Render(busy(), top.View{Width: 100, Plain: true})); diff != "" {
		t.Error(diff)
	}
}

func TestRenderByNumberAndOtherPools(t *testing.T) {
	text := top.Render(busy(), top.View{Width: 100, Plain: true, Order: top.ByNumber, Pool: -2})
	if i, j := strings.Index(text, "\n0  "), strings.Index(text, "\n1  "); i < 0 || j < i {
		t.Errorf("partitions are not by number, two pools before the first:\n%s", text)
	}
	if text = top.Render(busy(), top.View{Width: 100, Plain: true, Pool: 3}); !strings.Contains(text, "whale-a  (pool 2 of 2)") {
		t.Errorf("not the second pool:\n%s", text)
	}
}

func TestRenderBeforeTheFirstLook(t *testing.T) {
	text := top.Render(&top.Snapshot{Problems: []string{"a", "b", "c"}}, top.View{Width: 80, Plain: true})
	if want := "tenantlane  the first look is under way\na\nb\nand 1 more"; text != want {
		t.Errorf("got %q, want %q", text, want)
	}
}

// TestRenderFits: no line wider, no more lines, whatever there is to draw, and
// nothing that acts on a terminal but the colors of the screen itself.
func TestRenderFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := busy()
		s.Seen.Errors = rapid.SliceOfN(rapid.String(), 0, 5).Draw(t, "errors")
		s.Notes = rapid.SliceOfN(rapid.String(), 0, 20).Draw(t, "notes")
		for i := range rapid.IntRange(0, 60).Draw(t, "partitions") {
			s.Seen.Groups[0].Partitions = append(s.Seen.Groups[0].Partitions, lagwatch.PartitionEvaluation{Partition: int32(i), Known: true, Committed: true, Lag: int64(i)})
		}
		for range rapid.IntRange(0, 60).Draw(t, "tenants") {
			s.Tenants = append(s.Tenants, top.Tenant{Name: string(rapid.SliceOf(rapid.Byte()).Draw(t, "name")), State: "running"})
		}
		v := top.View{
			Width: rapid.IntRange(1, 200).Draw(t, "width"), Height: rapid.IntRange(1, 80).Draw(t, "height"),
			Pool: rapid.Int().Draw(t, "pool"), Plain: true, Keys: rapid.Bool().Draw(t, "keys"),
		}
		lines := strings.Split(top.Render(s, v), "\n")
		if len(lines) > v.Height {
			t.Fatalf("%d lines on a screen of %d", len(lines), v.Height)
		}
		for _, line := range lines {
			if ansi.StringWidth(line) > v.Width {
				t.Fatalf("%q is wider than %d", line, v.Width)
			}
			if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r == 0x7f || 0x80 <= r && r < 0xa0 }) {
				t.Fatalf("%q acts on a terminal", line)
			}
		}
		if v.Keys && v.Height > 20 && !strings.HasPrefix(lines[len(lines)-1], "q"[:min(1, v.Width-1)]) {
			t.Fatalf("the last line is %q", lines[len(lines)-1])
		}
	})
}

// TestRunDrawsAndEnds: a screen draws what it is fed and ends when the feed
// does; q is asked for by a person.
func TestRunDrawsAndEnds(t *testing.T) {
	for _, keys := range []string{"", "q"} {
		t.Run(fmt.Sprintf("keys %q", keys), func(t *testing.T) {
			in, typed := io.Pipe()
			var typing sync.WaitGroup
			defer func() {
				_ = typed.Close()
				typing.Wait()
			}()
			feed := make(chan *top.Snapshot, 1)
			feed <- busy()
			if keys == "" {
				close(feed)
			} else {
				typing.Go(func() { _, _ = io.WriteString(typed, keys) })
			}
			var out strings.Builder
			quit, err := top.Run(context.Background(), top.Config{In: in, Out: &out, Feed: feed})
			if err != nil || quit != (keys != "") {
				t.Errorf("quit %v, %v", quit, err)
			}
		})
	}
}

func ExampleRender() {
	fmt.Println(top.Render(&top.Snapshot{At: noon, Seen: &lagwatch.Evaluation{Cluster: "c1"}}, top.View{Width: 42, Plain: true}))
	// Output: tenantlane  12:00:00  cluster c1  groups …
}
