package consumertest_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/tenantlane/tenantlane/consumer"
	"github.com/tenantlane/tenantlane/consumer/consumertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func done(context.Context, *consumer.Record) error { return nil }

// values are those that were handled without an error, of one key.
func values(w *consumertest.Worker, key string) string {
	var vs []string
	for _, h := range w.Handlings() {
		if h.Key == key && h.Err == nil {
			vs = append(vs, h.Value)
		}
	}
	return strings.Join(vs, " ")
}

func TestSettleWaitsForAllThatWasSent(t *testing.T) {
	t.Parallel()
	w := consumertest.Start(t, consumertest.Config{Partitions: 3}, done)
	w.Settle() // nothing was sent
	w.Send("acme", "1", "2", "3")
	w.Send("globex", "1")
	w.Settle()
	if values(w, "acme") != "1 2 3" || values(w, "globex") != "1" {
		t.Errorf("handled %+v", w.Handlings())
	}
}

func TestRetriesAreSeenWithTheirErrors(t *testing.T) {
	t.Parallel()
	errBusy := errors.New("busy")
	w := consumertest.Start(t, consumertest.Config{}, func(_ context.Context, r *consumer.Record) error {
		if r.Attempt < 3 {
			return errBusy
		}
		return nil
	})
	w.Send("acme", "1", "2")
	w.Settle()
	all := w.Handlings()
	if len(all) != 6 || all[1].Attempt != 2 || !errors.Is(all[1].Err, errBusy) || all[2].Err != nil || all[3].Value != "2" {
		t.Errorf("handled %+v", all)
	}
}

func TestCrashAndRestartGoOnWhereTheCommitsSay(t *testing.T) {
	t.Parallel()
	w := consumertest.Start(t, consumertest.Config{}, done)
	w.Send("acme", "1", "2", "3")
	w.Settle()
	w.Until("a commit", func() bool { return w.Committed(0) == 3 })
	w.Crash()
	w.Send("acme", "4")
	w.Settle()
	w.Restart()
	w.Send("acme", "5")
	w.Settle()
	if got := values(w, "acme"); got != "1 2 3 4 5" {
		t.Errorf("handled %q", got)
	}
	all := w.Handlings()
	if all[0].Worker != 1 || all[3].Worker != 2 || all[4].Worker != 3 {
		t.Errorf("handled %+v", all)
	}
}

func TestSettleAcceptsParkedRecords(t *testing.T) {
	t.Parallel()
	w := consumertest.Start(t, consumertest.Config{}, func(_ context.Context, r *consumer.Record) error {
		if string(r.Value) == "bad" {
			return consumer.Permanent(errors.New("cannot be parsed"))
		}
		return nil
	})
	w.Send("acme", "bad", "2")
	w.Send("globex", "1")
	w.Settle()
	if values(w, "globex") != "1" || values(w, "acme") != "" {
		t.Errorf("handled %+v", w.Handlings())
	}
	if st := w.Runtime().Tenant([]byte("acme")); st.State != consumer.StateParked || st.Depth != 2 {
		t.Errorf("acme is %+v", st)
	}
}

func TestDeadLettersAreRead(t *testing.T) {
	t.Parallel()
	w := consumertest.Start(t, consumertest.Config{Consumer: consumer.Config{
		Retry: consumer.Retry{Exhausted: consumer.DeadLetter},
	}}, func(_ context.Context, r *consumer.Record) error {
		if string(r.Value) == "bad" {
			return consumer.Permanent(errors.New("cannot be parsed"))
		}
		return nil
	})
	if letters := w.DeadLetters(); letters != nil {
		t.Errorf("%d dead letters before anything failed", len(letters))
	}
	w.Send("acme", "1", "bad", "3")
	w.Settle()
	letters := w.DeadLetters()
	if len(letters) != 1 || string(letters[0].Value) != "bad" || values(w, "acme") != "1 3" {
		t.Errorf("%d dead letters, handled %q", len(letters), values(w, "acme"))
	}
}
