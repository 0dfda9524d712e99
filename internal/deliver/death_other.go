//go:build unix && !linux

package deliver

import "syscall"

// endWithWorker does nothing where a process is not told that its parent ended.
func endWithWorker(*syscall.SysProcAttr) {}
