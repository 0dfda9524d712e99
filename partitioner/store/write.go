package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/cespare/xxhash/v2"
	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// lockRetry is the pause between two tries for another process's lock.
const lockRetry = 10 * time.Millisecond

// filePerm is what a new table file gets; a replaced one keeps its mode.
const filePerm fs.FileMode = 0o644

// Write replaces the file by t and publishes t here at once; other processes
// see it within their interval. t must follow what the file holds at that
// moment: a higher revision, and no change of what is fixed once data exists.
// A file that does not parse is refused too, since its author is not done.
//
// An error means that nothing has changed, unless Table gives t afterwards: the
// directory could then not be synced.
//
// The file keeps its permissions, and loses its comments: it then holds the
// table's canonical YAML. A crash leaves the old file or the new one.
func (f *File) Write(ctx context.Context, t *routing.Table) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.write(ctx, t); err != nil {
		return fmt.Errorf("write routing table %s: %w", f.path, err)
	}
	return nil
}

func (f *File) write(ctx context.Context, t *routing.Table) error {
	content, err := t.YAML()
	if err != nil {
		return err
	}
	path, err := filepath.EvalSymlinks(f.path) // else the rename would replace the link
	if err != nil {
		return err
	}
	unlock, err := lock(ctx, filepath.Dir(path))
	if err != nil {
		return err
	}
	defer unlock()
	onDisk, _, err := load(path)
	if err != nil {
		return err
	}
	if err := f.mayFollow(onDisk, t); err != nil {
		return err
	}
	if err := f.mayFollow(f.Table(), t); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := replace(path, content); err != nil {
		return err
	}
	f.cfg.Logger.Info("routing table written", zap.String("file", f.path), zap.Uint64("revision", t.Revision()))
	f.seen = xxhash.Sum64(content)
	f.replaced(t)
	if err := syncDir(filepath.Dir(path)); err != nil {
		return fmt.Errorf("it is in effect, but may be lost if the machine crashes: %w", err)
	}
	return nil
}

// mayFollow tells whether next may take the place of cur: its revision is
// higher, and nothing differs that is fixed once data exists.
func (f *File) mayFollow(cur, next *routing.Table) error {
	if next.Revision() <= cur.Revision() {
		return fmt.Errorf("%w: revision %d does not follow revision %d", ErrRevision, next.Revision(), cur.Revision())
	}
	return next.MayReplace(cur, f.cfg.HasData)
}

// lock takes the directory's advisory lock, which every Write holds from
// reading the file to replacing it.
func lock(ctx context.Context, dir string) (unlock func(), err error) {
	for {
		unlock, err := tryLock(dir)
		if err == nil || !errors.Is(err, errLocked) {
			return unlock, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("directory %s is locked by another writer: %w", dir, ctx.Err())
		case <-time.After(lockRetry):
		}
	}
}

// replace puts content into path by way of a temporary file beside it: written,
// synced, renamed. An error means that path is as it was.
func replace(path string, content []byte) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, ignoreNotExist(os.Remove(tmp.Name())))
		}
	}()
	if err := fill(tmp, content, modeOf(path)); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

func fill(tmp *os.File, content []byte, mode fs.FileMode) error {
	_, err := tmp.Write(content)
	if err == nil {
		err = tmp.Chmod(mode)
	}
	if err == nil {
		err = tmp.Sync()
	}
	return errors.Join(err, tmp.Close())
}

func modeOf(path string) fs.FileMode {
	info, err := os.Stat(path)
	if err != nil {
		return filePerm
	}
	return info.Mode().Perm()
}

// syncDir makes a renamed file's name survive a crash of the machine.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func ignoreNotExist(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
