package kafka

import (
	"os/exec"
	"syscall"
)

// dieWithParent makes the kernel kill the child when the thread that starts it
// ends. That thread must therefore be kept (runtime.LockOSThread) for as long
// as the child may live: https://go.dev/issue/27505.
// The child gets a process group of its own, so that a Ctrl-C at the terminal
// reaches only us and the order of the end stays ours.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
