package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

func edited(t *testing.T, table *routing.Table, tenant string, partition int32) *routing.Table {
	t.Helper()
	next, err := table.Edit(routing.SetPlacement("orders", tenant, routing.Placement{Partitions: []int32{partition}}))
	if err != nil {
		t.Fatal(err)
	}
	return next
}

func TestWriteIsSeenHereAtOnceAndElsewhereWithinTheInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := tableFile(t, firstTable)
		here, elsewhere := open(t, path, FileConfig{}), open(t, path, FileConfig{})
		changed := elsewhere.Changed()
		if err := here.Write(t.Context(), edited(t, here.Table(), "acme", 3)); err != nil {
			t.Fatal(err)
		}
		if here.Table().Revision() != 2 || elsewhere.Table().Revision() != 1 {
			t.Errorf("revisions %d and %d right after the write", here.Table().Revision(), elsewhere.Table().Revision())
		}
		start := time.Now()
		<-changed
		if elsewhere.Table().Revision() != 2 || time.Since(start) > DefaultInterval {
			t.Errorf("revision %d after %v", elsewhere.Table().Revision(), time.Since(start))
		}
		topic, _ := elsewhere.Table().Topic("orders")
		if got := topic.Lookup([]byte("acme"), nil).Partition; got != 3 {
			t.Errorf("acme goes to partition %d", got)
		}
	})
}

func TestWriteRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		next string
		want error
	}{
		"the same revision":     {strings.Replace(secondTable, "revision: 2", "revision: 1", 1), ErrRevision},
		"a lower revision":      {strings.Replace(secondTable, "revision: 2", "revision: 0", 1), ErrRevision},
		"what data has fixed":   {strings.Replace(secondTable, "slots: 64", "slots: 128", 1), nil},
		"a topic being dropped": {"version: 1\nrevision: 2\ntopics:\n  other: {partitions: 1}\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			path := tableFile(t, firstTable)
			f := open(t, path, FileConfig{})
			err := f.Write(t.Context(), parse(t, c.next))
			if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("error is %v", err)
			}
			unchanged(t, f, path)
		})
	}
}

// unchanged wants the first table, in memory and on disk, and no file beside it.
func unchanged(t *testing.T, f *File, path string) {
	t.Helper()
	if f.Table().Revision() != 1 {
		t.Errorf("revision %d is published", f.Table().Revision())
	}
	if content, err := os.ReadFile(path); err != nil || string(content) != firstTable {
		t.Errorf("the file changed (%v)", err)
	}
	if files, err := os.ReadDir(filepath.Dir(path)); err != nil || len(files) != 1 {
		t.Errorf("files left behind: %v (%v)", files, err)
	}
}

func TestWriteFollowsTheFileNotTheView(t *testing.T) {
	path := tableFile(t, firstTable)
	f := open(t, path, FileConfig{Interval: time.Hour})
	stale := edited(t, f.Table(), "globex", 4)
	put(t, path, secondTable) // another process, not seen here yet
	if err := f.Write(t.Context(), stale); !errors.Is(err, ErrRevision) {
		t.Errorf("overwrote another writer's table: %v", err)
	}
	put(t, path, "half an ed")
	if err := f.Write(t.Context(), stale); err == nil {
		t.Error("overwrote a file that somebody is editing")
	}
}

func TestWriteGivesUpWithItsContext(t *testing.T) {
	path := tableFile(t, firstTable)
	f := open(t, path, FileConfig{})
	unlock, err := tryLock(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 3*lockRetry)
	defer cancel()
	if err := f.Write(ctx, edited(t, f.Table(), "acme", 3)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error is %v", err)
	}
	unchanged(t, f, path)
}

func TestOfManyWritersOfOneRevisionOneWins(t *testing.T) {
	path := tableFile(t, firstTable)
	const writers = 8
	files := make([]*File, writers)
	for i := range files {
		files[i] = open(t, path, FileConfig{Interval: time.Hour})
	}
	errs := make([]error, writers)
	var wg sync.WaitGroup
	for i, f := range files {
		next := edited(t, f.Table(), "acme", int32(i))
		wg.Go(func() { errs[i] = f.Write(t.Context(), next) })
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else if !errors.Is(err, ErrRevision) {
			t.Error(err)
		}
	}
	if won != 1 {
		t.Errorf("%d writers won", won)
	}
}

func TestWriteKeepsModeAndLink(t *testing.T) {
	target := tableFile(t, firstTable)
	if err := os.Chmod(target, 0o640); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link.yaml")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	f := open(t, link, FileConfig{})
	if err := f.Write(t.Context(), edited(t, f.Table(), "acme", 3)); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(target)
	if err != nil || info.Mode() != 0o640 {
		t.Errorf("mode %v (%v)", info.Mode(), err)
	}
	if at, err := os.Readlink(link); err != nil || at != target {
		t.Errorf("the link points to %q (%v)", at, err)
	}
	if table, _, err := load(target); err != nil || table.Revision() != 2 {
		t.Errorf("the target was not written: %v", err)
	}
}

// TestACrashWhileWritingLeavesAWholeTable ends a write after each of its steps
// and wants the old table or the new one to be readable, and the next write to
// work.
func TestACrashWhileWritingLeavesAWholeTable(t *testing.T) {
	path := tableFile(t, firstTable)
	left := filepath.Join(filepath.Dir(path), ".routing.yaml.123.tmp")
	put(t, left, secondTable[:30]) // what a writer leaves that was killed before its rename
	f := open(t, path, FileConfig{})
	if f.Table().Revision() != 1 {
		t.Errorf("revision %d", f.Table().Revision())
	}
	if err := f.Write(t.Context(), edited(t, f.Table(), "acme", 3)); err != nil {
		t.Error(err)
	}
	if table, _, err := load(path); err != nil || table.Revision() != 2 {
		t.Errorf("after the next write: %v", err)
	}
}

func TestWriteIntoADirectoryThatIsReadOnly(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root writes anywhere")
	}
	path := tableFile(t, firstTable)
	f := open(t, path, FileConfig{})
	if err := os.Chmod(filepath.Dir(path), 0o500); err != nil {
		t.Fatal(err)
	}
	if err := f.Write(t.Context(), edited(t, f.Table(), "acme", 3)); !errors.Is(err, os.ErrPermission) {
		t.Errorf("error is %v", err)
	}
	unchanged(t, f, path)
}
