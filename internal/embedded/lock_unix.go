//go:build unix

package embedded

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// lockDir makes the directory and takes its lock, which the kernel drops if
// the process dies. Two kfake clusters on one directory would each overwrite
// what the other wrote.
func lockDir(dir string) (unlock func() error, err error) {
	if err = os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, "LOCK"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("%s is in use by another broker: %w", dir, err)
	}
	return f.Close, nil
}
