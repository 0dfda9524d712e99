package rebalance

import (
	"errors"
	"strings"
	"testing"
)

func TestWhatIsNotKnownIsNotDrained(t *testing.T) {
	broken := errors.New("coordinator is loading")
	spans := map[int32]span{3: {10, 20}, 5: {7, 7}}
	for name, c := range map[string]struct {
		commits map[int32]commit
		want    string
	}{
		"at the end":               {map[int32]commit{3: {at: 20}, 5: {at: -1}}, ""},
		"past the end":             {map[int32]commit{3: {at: 25}}, ""},
		"one short":                {map[int32]commit{3: {at: 19}, 5: {at: 7}}, "committed 19 of 20"},
		"no commit":                {map[int32]commit{3: {at: -1}}, "no commit, end offset is 20"},
		"no answer":                {map[int32]commit{5: {at: 7}}, "no answer"},
		"an error":                 {map[int32]commit{3: {at: -1, err: broken}}, "coordinator is loading"},
		"an error beside a number": {map[int32]commit{3: {at: 20, err: broken}}, "coordinator is loading"},
	} {
		t.Run(name, func(t *testing.T) {
			behind := lagging("g", "orders", spans, c.commits)
			if c.want == "" {
				if behind != nil {
					t.Errorf("lags: %v", behind)
				}
				return
			}
			if behind == nil || !errors.Is(behind, ErrNotDrained) || !strings.Contains(behind.Error(), c.want) ||
				!strings.Contains(behind.Error(), `group "g" in topic orders partition 3`) {
				t.Errorf("got %v", behind)
			}
		})
	}
}
