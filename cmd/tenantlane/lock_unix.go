//go:build unix

package main

import (
	"errors"
	"os"
	"syscall"
)

// lockFile makes sure that no other process writes the file, or answers
// errFileLocked. The lock ends with the process.
func lockFile(file *os.File) error {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errFileLocked
	}
	return err
}
