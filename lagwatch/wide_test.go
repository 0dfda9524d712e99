package lagwatch

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenantlane/tenantlane/lagwatch/lag"
	"github.com/tenantlane/tenantlane/lagwatch/notify"
)

// unseen is a snapshot of a group that reads several topics and of which
// nothing was told.
func unseen(at time.Time, topics ...string) *Snapshot {
	s := &Snapshot{At: at, Groups: []GroupSnapshot{{Group: "billing"}}}
	for _, name := range topics {
		s.Groups[0].Topics = append(s.Groups[0].Topics, CommitsSnapshot{Topic: name, Commits: []int64{Unread, Unread}})
		s.Topics = append(s.Topics, TopicSnapshot{Topic: name})
	}
	return s
}

// A group that cannot be seen is one page: not one for each topic that it
// reads, and not another for each pool of them.
func TestGroupThatIsNotSeenIsOnePage(t *testing.T) {
	t.Parallel()
	cfg := Config{}.withDefaults()
	e := newEngine(&cfg)
	var last *Evaluation
	for i := range 5 {
		s := unseen(time.Unix(int64(1_700_000_000+10*i), 0), "audit", "mails", "orders")
		e.observe(s)
		last = e.evaluate(s)
	}
	blind := slices.DeleteFunc(slices.Clone(last.alerts), func(a notify.Alert) bool { return a.Name != lag.AlertBlind })
	if len(blind) != 1 || blind[0].Group != "billing" || blind[0].Topic != "" || blind[0].Pool != "" {
		t.Fatalf("%+v", blind)
	}
}

// A restart in the middle of a blindness does not end its page.
func TestBlindnessSurvivesARestart(t *testing.T) {
	t.Parallel()
	file := t.TempDir() + "/state"
	start := func() *Watcher {
		t.Helper()
		w, err := New(Config{KafkaOpts: clientOpts(&Config{SampleTimeout: time.Second, Rule: new(lag.Defaults())}), StateFile: file})
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	w := start()
	w.inv.pair("billing", "orders")
	at := time.Now().Add(-time.Minute)
	round := func(w *Watcher) *Evaluation {
		at = at.Add(10 * time.Second)
		s := unseen(at, "orders")
		w.engine.observe(s)
		return w.engine.evaluate(s)
	}
	for range 4 {
		round(w)
	}
	w.save(at, true)
	if e := round(start()); len(e.alerts) != 1 || e.alerts[0].Name != lag.AlertBlind {
		t.Fatalf("after the restart: %+v", e.alerts)
	}
}

// What a page proposes can be pasted: it reaches this cluster and its table.
func TestCommandsReachTheClusterAndTheTable(t *testing.T) {
	t.Parallel()
	cfg := Config{StateFile: "/var/lib/lagwatch/state", CommandFlags: []string{"--brokers", "kafka:9092", "--table-topic", "tenantlane.routing"}}.withDefaults()
	got := newEngine(&cfg).commands(pairKey{"billing", "or ders"}, &lag.Evidence{Partition: 7}, attribution{})
	want := "tenantlane lagwatch explain billing 'or ders' 7 --state /var/lib/lagwatch/state --brokers kafka:9092 --table-topic tenantlane.routing"
	if len(got) != 1 || got[0] != want {
		t.Fatalf("%s", strings.Join(got, "\n"))
	}
}
