package kafka

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

const tempPrefix = "tenantlane-kafka-run-"

// workdir is the directory of one cluster, locked for as long as the cluster
// lives. The kernel drops the lock when its holder dies, so a temporary
// directory without a holder is a leftover.
type workdir struct {
	path string
	temp bool
	lock *os.File
}

// openWorkdir takes dir, or makes a temporary one below temp and removes the
// leftovers there.
func openWorkdir(dir, temp string) (*workdir, error) {
	if dir != "" {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return nil, err
		}
		lock, err := tryLock(filepath.Join(dir, "lock"))
		if err != nil {
			return nil, fmt.Errorf("%s is in use by another cluster: %w", dir, err)
		}
		return &workdir{path: dir, lock: lock}, nil
	}
	// One lock for all: between making a directory and locking it, another
	// process would take it for a leftover.
	gate, err := lockFile(filepath.Join(temp, "tenantlane-kafka.lock"), 0)
	if err != nil {
		return nil, err
	}
	defer gate.Close() // drops the lock
	removeLeftovers(temp)
	path, err := os.MkdirTemp(temp, tempPrefix+"*")
	if err != nil {
		return nil, err
	}
	lock, err := tryLock(filepath.Join(path, "lock"))
	if err != nil {
		return nil, err
	}
	return &workdir{path: path, temp: true, lock: lock}, nil
}

func removeLeftovers(temp string) {
	old, _ := filepath.Glob(filepath.Join(temp, tempPrefix+"*")) // the pattern is valid
	for _, dir := range old {
		lock, err := tryLock(filepath.Join(dir, "lock"))
		if err != nil {
			continue // in use, or not ours
		}
		_ = os.RemoveAll(dir)
		_ = lock.Close()
	}
}

// close gives the directory up, and removes a temporary one.
func (w *workdir) close() error {
	var err error
	if w.temp {
		err = os.RemoveAll(w.path)
	}
	return errors.Join(err, w.lock.Close())
}

func tryLock(path string) (*os.File, error) { return lockFile(path, syscall.LOCK_NB) }

// lockFile takes the exclusive lock of a file, which it makes if missing.
func lockFile(path string, how int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|how); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
