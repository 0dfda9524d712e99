package main

import (
	"context"
	"errors"
	"io"
	"os"
	"time"
)

// errFileLocked is a log that has a writer.
var errFileLocked = errors.New("another process is writing it; give each worker its own")

// lockPatience is how long a log may still have a writer: a worker that was
// killed holds its lock until the system has taken the process down, which on a
// busy machine is after its successor has started.
const lockPatience = 5 * time.Second

// openWorkerLog opens the log of one worker for appending, and ends a line
// that a killed worker left torn. Two workers cannot share one: their lines
// could not be told apart.
func openWorkerLog(ctx context.Context, path string) (io.Writer, func() error, error) {
	if path == "" {
		return nil, func() error { return nil }, nil
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, nil, usagef("--log-file: %w", err)
	}
	err = lockInTime(ctx, file)
	if err == nil {
		err = endLine(file)
	}
	if err != nil {
		return nil, nil, usagef("--log-file %s: %w", path, errors.Join(err, file.Close()))
	}
	return file, file.Close, nil
}

// lockInTime waits for a writer that is on its way out.
func lockInTime(ctx context.Context, file *os.File) error {
	for end := time.Now().Add(lockPatience); ; {
		err := lockFile(file)
		if !errors.Is(err, errFileLocked) || time.Now().After(end) {
			return err
		}
		if err := wait(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
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
