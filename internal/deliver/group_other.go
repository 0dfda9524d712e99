//go:build !unix

package deliver

import "os/exec"

// ownGroup does nothing where processes have no groups: the deadline then
// ends the command alone.
func ownGroup(*exec.Cmd) {}

func killGroup(*exec.Cmd) {}
