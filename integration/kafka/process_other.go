//go:build unix && !linux

package kafka

import (
	"os/exec"
	"syscall"
)

// dieWithParent only separates the child from the terminal's signals: nothing
// on this system ties a child's life to its parent's.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}
