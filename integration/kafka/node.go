package kafka

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// node is one broker: its place on disk, and the process that runs now, if
// any.
type node struct {
	id   int
	java []string // command line
	log  string   // file that takes the process's output, appended to

	owner sync.WaitGroup // the goroutine that holds the running process

	mu sync.Mutex
	// guards the fields below
	process *os.Process // nil while none runs
	ours    bool        // we asked the running process to end
	died    error       // how the last process ended, if nobody asked it to
}

// start starts the process. It fails if one runs.
func (n *node) start() error {
	n.mu.Lock()
	running := n.process != nil
	n.mu.Unlock()
	if running {
		return fmt.Errorf("node %d is running", n.id)
	}
	started := make(chan error)
	n.owner.Go(func() { n.hold(started) })
	return <-started
}

// hold starts the process and stays with it until it ends, on a thread of its
// own that ends with it; see dieWithParent.
func (n *node) hold(started chan<- error) {
	runtime.LockOSThread()
	out, err := os.OpenFile(n.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		started <- err
		return
	}
	defer out.Close() // the child writes it
	cmd := exec.Command(n.java[0], n.java[1:]...)
	cmd.Stdout, cmd.Stderr = out, out
	dieWithParent(cmd)
	if err := cmd.Start(); err != nil {
		started <- fmt.Errorf("node %d: %w", n.id, err)
		return
	}
	n.mu.Lock()
	n.process, n.ours, n.died = cmd.Process, false, nil
	n.mu.Unlock()
	started <- nil

	_ = cmd.Wait() // ProcessState says it better, also for exit status 0
	n.mu.Lock()
	defer n.mu.Unlock()
	n.process = nil
	if !n.ours {
		n.died = fmt.Errorf("node %d ended by itself: %s", n.id, cmd.ProcessState)
	}
}

// signal sends sig; ends tells that the process is expected to end by it.
func (n *node) signal(sig syscall.Signal, ends bool) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process == nil {
		return fmt.Errorf("node %d does not run", n.id)
	}
	n.ours = n.ours || ends
	if err := n.process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("node %d: signal %s: %w", n.id, sig, err)
	}
	return nil
}

// kill ends the process at once and waits until it is gone.
func (n *node) kill() error {
	err := n.signal(syscall.SIGKILL, true)
	n.owner.Wait()
	return err
}

// pid returns the running process's id, or 0.
func (n *node) pid() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process == nil {
		return 0
	}
	return n.process.Pid
}

// failure returns how the node ended if nobody asked it to.
func (n *node) failure() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.died
}
