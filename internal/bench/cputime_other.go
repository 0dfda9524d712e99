//go:build !linux

package bench

import "time"

// threadTime is the time that went by: the processor time of a thread has no
// portable name.
func threadTime() time.Duration { return time.Since(started) }

// processTime is the time that went by, for the same reason.
func processTime() time.Duration { return time.Since(started) }

var started = time.Now()
