package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

const firstTable = `
version: 1
revision: 1
topics:
  orders: {partitions: 8, slots: 64}
`

const secondTable = `
version: 1
revision: 2
topics:
  orders: {partitions: 8, slots: 64, epoch: 1, placements: {acme: {partitions: [3], epoch: 1}}}
`

func put(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func tableFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "routing.yaml")
	put(t, path, content)
	return path
}

func open(t *testing.T, path string, cfg FileConfig) *File {
	t.Helper()
	f, err := OpenFile(t.Context(), path, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func parse(t *testing.T, content string) *routing.Table {
	t.Helper()
	table, err := routing.Parse("test", []byte(content))
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

func TestOpenFileFailsWithoutAValidTable(t *testing.T) {
	for name, c := range map[string]struct{ content, want string }{
		"unknown field":   {"version: 1\nrevision: 1\ntopics:\n  orders: {partitions: 8, color: red}\n", ":4: topics.orders"},
		"out of range":    {"version: 1\nrevision: 1\ntopics:\n  orders: {partitions: 8, placements: {a: {partitions: [8]}}}\n", "placements.a.partitions"},
		"empty":           {"", "routing.yaml"},
		"something else":  {"\x00\x01\x02", "routing.yaml"},
		"duplicate topic": {"version: 1\nrevision: 1\ntopics:\n  a: {partitions: 1}\n  a: {partitions: 1}\n", "5"},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := OpenFile(t.Context(), tableFile(t, c.content), FileConfig{})
			if err == nil {
				t.Fatalf("opened %q: %v", c.content, f.Close())
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %q does not name %q", err, c.want)
			}
		})
	}
}

func TestOpenFileNamesAMissingFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "absent.yaml")
	if _, err := OpenFile(t.Context(), path, FileConfig{}); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("error is %v", err)
	}
}

func TestFileConfigNamesTheField(t *testing.T) {
	_, err := OpenFile(t.Context(), tableFile(t, firstTable), FileConfig{Interval: time.Microsecond})
	if err == nil || !strings.Contains(err.Error(), "Interval") {
		t.Errorf("error is %v", err)
	}
}

func TestFilePublishesAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := tableFile(t, firstTable)
		f := open(t, path, FileConfig{})
		changed := f.Changed()
		put(t, path, secondTable)
		start := time.Now()
		<-changed
		if waited := time.Since(start); waited > time.Second {
			t.Errorf("took %v", waited)
		}
		if got := f.Table().Revision(); got != 2 {
			t.Errorf("revision %d", got)
		}
		if closed(f.Changed()) {
			t.Error("the next change is announced already")
		}
	})
}

func TestFileKeepsTheLastGoodTable(t *testing.T) {
	for name, bad := range map[string]string{
		"half written":           secondTable[:len(secondTable)-20],
		"same revision":          strings.Replace(secondTable, "revision: 2", "revision: 1", 1),
		"lower revision":         strings.Replace(secondTable, "revision: 2", "revision: 0", 1),
		"changed slots":          strings.Replace(secondTable, "slots: 64", "slots: 128", 1),
		"changed tenant_of":      strings.Replace(secondTable, "slots: 64", "slots: 64, tenant_of: 'header:t'", 1),
		"fewer partitions":       strings.Replace(secondTable, "partitions: 8", "partitions: 4", 1),
		"without the topic":      "version: 1\nrevision: 2\ntopics:\n  other: {partitions: 1}\n",
		"placement out of range": strings.Replace(secondTable, "[3]", "[8]", 1),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { keepsLastGood(t, bad) })
		})
	}
}

func keepsLastGood(t *testing.T, bad string) {
	path := tableFile(t, firstTable)
	core, logs := observer.New(zap.ErrorLevel)
	reg := prometheus.NewPedanticRegistry()
	f := open(t, path, FileConfig{Logger: zap.New(core), Registerer: reg})
	changed := f.Changed()

	put(t, path, bad)
	elapse(10 * time.Second)
	if f.Table().Revision() != 1 || closed(changed) || f.Err() == nil {
		t.Errorf("revision %d, announced %v, Err %v", f.Table().Revision(), closed(changed), f.Err())
	}
	if logs.Len() != 1 {
		t.Errorf("logged %d times: %v", logs.Len(), logs.All())
	}
	if got := metric(t, reg, "tenantlane_table_bad"); got != 1 {
		t.Errorf("tenantlane_table_bad is %v", got)
	}
	if age := f.Age(); age < 9*time.Second {
		t.Errorf("age is %v while the file cannot be used", age)
	}

	put(t, path, secondTable)
	<-changed
	if f.Table().Revision() != 2 || f.Err() != nil || metric(t, reg, "tenantlane_table_bad") != 0 {
		t.Errorf("revision %d, Err %v after the file was put right", f.Table().Revision(), f.Err())
	}
}

// elapse lets virtual time pass and waits until nothing is left to do.
func elapse(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// metric gives the value of the one metric of a name whose labels have the
// given values.
func metric(t *testing.T, reg *prometheus.Registry, name string, labels ...string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			var have []string
			for _, pair := range m.GetLabel() {
				have = append(have, pair.GetValue())
			}
			if family.GetName() == name && slices.Equal(have, labels) {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("no metric %s%v", name, labels)
	return 0
}

func TestFileAcceptsTheCurrentTableAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := tableFile(t, firstTable)
		f := open(t, path, FileConfig{})
		for _, content := range []string{"broken", "# with a comment\n" + firstTable} {
			put(t, path, content)
			elapse(2 * time.Second)
		}
		synctest.Wait()
		if f.Err() != nil || f.Age() > time.Second {
			t.Errorf("Err %v, age %v", f.Err(), f.Age())
		}
	})
}

func TestFileOutlivesItsFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := tableFile(t, firstTable)
		f := open(t, path, FileConfig{})
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		elapse(2 * time.Second)
		if !errors.Is(f.Err(), os.ErrNotExist) || f.Table().Revision() != 1 {
			t.Errorf("Err %v, revision %d", f.Err(), f.Table().Revision())
		}
		put(t, path, firstTable)
		elapse(2 * time.Second)
		if f.Err() != nil {
			t.Errorf("Err %v after the file came back", f.Err())
		}
	})
}

func TestFileMayChangeWhatIsFixedWhileThereIsNoData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := tableFile(t, firstTable)
		f := open(t, path, FileConfig{HasData: func(string) bool { return false }})
		changed := f.Changed()
		put(t, path, strings.Replace(secondTable, "slots: 64", "slots: 128", 1))
		<-changed
		if topic, _ := f.Table().Topic("orders"); topic.Slots() != 128 {
			t.Errorf("%d slots", topic.Slots())
		}
	})
}

func TestFileEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		path := tableFile(t, firstTable)
		f, err := OpenFile(ctx, path, FileConfig{})
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		put(t, path, secondTable)
		elapse(5 * time.Second)
		if f.Table().Revision() != 1 {
			t.Error("still followed after its context ended")
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestFileMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewPedanticRegistry()
		path := tableFile(t, firstTable)
		f, err := OpenFile(t.Context(), path, FileConfig{Registerer: reg})
		if err != nil {
			t.Fatal(err)
		}
		if err = f.Write(t.Context(), parse(t, secondTable)); err != nil {
			t.Fatal(err)
		}
		put(t, path, "broken")
		elapse(3 * time.Second)
		for _, c := range []struct {
			name, result string
			want         float64
		}{
			{"tenantlane_table_loads_total", "loaded", 1},
			{"tenantlane_table_loads_total", "refused", 1},
			{"tenantlane_table_revision", "", 2},
			{"tenantlane_table_bad", "", 1},
			{"tenantlane_table_age_seconds", "", 3},
		} {
			labels := strings.Fields(c.result)
			if got := metric(t, reg, c.name, labels...); got != c.want {
				t.Errorf("%s%v is %v, want %v", c.name, labels, got, c.want)
			}
		}
		_, err = OpenFile(t.Context(), tableFile(t, firstTable), FileConfig{Registerer: reg})
		if err == nil || !strings.Contains(err.Error(), "WrapRegistererWith") {
			t.Errorf("a second File on the registry: %v", err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if left, err := reg.Gather(); err != nil || len(left) != 0 {
			t.Errorf("%d metrics left after Close (%v)", len(left), err)
		}
	})
}

func TestFixedNeverChanges(t *testing.T) {
	table := parse(t, firstTable)
	src := Fixed(table)
	if src.Table() != table || closed(src.Changed()) {
		t.Error("not the table that was handed in")
	}
}
