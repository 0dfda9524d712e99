package main

import (
	"errors"
	"io"
	"os"
)

// openWorkerLog opens the log of one worker for appending, and ends a line
// that a killed worker left torn. Two workers cannot share one: their lines
// could not be told apart.
func openWorkerLog(path string) (io.Writer, func() error, error) {
	if path == "" {
		return nil, func() error { return nil }, nil
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, nil, usagef("--log-file: %w", err)
	}
	err = lockFile(file)
	if err == nil {
		err = endLine(file)
	}
	if err != nil {
		return nil, nil, usagef("--log-file %s: %w", path, errors.Join(err, file.Close()))
	}
	return file, file.Close, nil
}

// endLine appends a newline to a file that does not end in one.
func endLine(file *os.File) error {
	info, err := file.Stat()
	if err != nil || info.Size() == 0 {
		return err
	}
	last := make([]byte, 1)
	if _, err = file.ReadAt(last, info.Size()-1); err != nil || last[0] == '\n' {
		return err
	}
	_, err = file.WriteString("\n")
	return err
}
