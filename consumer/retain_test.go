package consumer

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"weak"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A record that an idle worker keeps pins the whole response that it came with.
func TestIdleWorkersKeepNoRecord(t *testing.T) {
	var kept weak.Pointer[kgo.Record]
	one := func(_ context.Context, r *Record) error {
		kept = weak.Make(r.Record)
		return nil
	}
	many := func(_ context.Context, rs []*Record) (int, error) {
		kept = weak.Make(rs[0].Record)
		return len(rs), nil
	}
	for name, batch := range map[string]BatchHandler{"one by one": nil, "batches": many} {
		t.Run(name, func(t *testing.T) {
			inBubbleBatch(t, Config{}, one, batch, func(b *bench) {
				b.admitted(0, "a:1")
				synctest.Wait()
				runtime.GC()
				if kept.Value() != nil {
					t.Error("a record that is done is still in memory")
				}
			})
		})
	}
}
