package lagwatch

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A state file may be damaged: it is refused or restored, never a panic, and
// what is restored can be saved again.
func FuzzDecodeState(f *testing.F) {
	f.Add([]byte(`{"version":1,"groups":{"g":{"topics":{"t":null}}},"topics":{"t":{"partitions":3}},"pairs":[{"group":"g","topic":"t","tracker":{"partitions":[{"p":1}]}}]}`))
	f.Add([]byte(`{"version":1,"groups":{"g":null},"logs":{"t":{"logs":{"-1":{}}}},"told":{"a":{"k":{}}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := decodeState(data)
		if err != nil || len(data) > 10_000 {
			return
		}
		for _, l := range s.Logs {
			if l == nil {
				continue
			}
			for p := range l.Logs {
				if p > 1000 { // a valid number, and too many for a test
					return
				}
			}
		}
		w, err := New(Config{KafkaOpts: []kgo.Opt{kgo.ClientID("fuzz")}})
		if err != nil {
			t.Fatal(err)
		}
		w.restore(s)
		if _, err := json.Marshal(w.state(s.SavedAt)); err != nil {
			t.Fatal(err)
		}
	})
}

// A recording may be damaged: an error, never a panic.
func FuzzReplay(f *testing.F) {
	f.Add([]byte(`{"snapshot":{"groups":[{"group":"g","topics":[{"topic":"t","commits":[1],"owned":[0,5]}]}],"topics":[{"topic":"t","known":true,"start":[0],"end":[9],"stable":[]}]}}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		_ = Replay(bytes.NewReader(data), Config{}, func(e *Evaluation) error {
			_, err := json.Marshal(e)
			return err
		})
	})
}
