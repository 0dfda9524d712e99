//go:build unix

package store

import (
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// A pipe has no end until somebody writes: it must hold up neither the watcher
// nor Close.
func TestFileKeepsItsTableBesideAPipe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := tableFile(t, firstTable)
		f := open(t, path, FileConfig{})
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
		elapse(2 * time.Second)
		if f.Err() == nil || f.Table().Revision() != 1 {
			t.Errorf("Err %v, revision %d", f.Err(), f.Table().Revision())
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		put(t, path, secondTable)
		elapse(2 * time.Second)
		if f.Err() != nil || f.Table().Revision() != 2 {
			t.Errorf("Err %v, revision %d after the pipe", f.Err(), f.Table().Revision())
		}
	})
}
