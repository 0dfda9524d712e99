package kafka

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// KeepLogs makes Stop keep the nodes' logs, for a test that failed.
func (c *Cluster) KeepLogs() { c.failed.Store(true) }

// Stop ends every node by its process id and removes the cluster's files,
// except those of a Config.Dir. If a node ended by itself, or after KeepLogs,
// the logs are kept, and the error says where and shows their tail. A second
// call does nothing and returns the same.
func (c *Cluster) Stop() error { return c.stop() }

func (c *Cluster) end() error {
	died := c.died()
	c.endNodes()
	var kept error
	if died != nil || c.failed.Load() {
		kept = c.keepLogs()
	}
	if err := errors.Join(died, kept, c.dir.close()); err != nil {
		return fmt.Errorf("kafka: %w", err)
	}
	return nil
}

// endNodes ends the processes: at once if their data is thrown away, else as
// an operator would, since Kafka checks its logs after a crash.
func (c *Cluster) endNodes() {
	var wg sync.WaitGroup
	for _, n := range c.nodes {
		wg.Go(func() {
			if !c.dir.temp {
				n.terminate(20 * time.Second)
			}
			_ = n.kill() // fails only if it has ended
		})
	}
	wg.Wait()
}

// terminate asks the process to end and waits, but not for longer than limit.
func (n *node) terminate(limit time.Duration) {
	late := time.AfterFunc(limit, func() { _ = n.signal(syscall.SIGKILL, true) })
	defer late.Stop()
	if n.signal(syscall.SIGTERM, true) == nil {
		_ = n.signal(syscall.SIGCONT, true) // a paused process takes no SIGTERM
		n.owner.Wait()
	}
}

// tailBytes is how much of a log is shown in an error.
const tailBytes = 2048

// keepLogs copies the logs to where they stay, and returns an error that says
// where and shows each one's tail.
func (c *Cluster) keepLogs() error {
	keep := filepath.Join(c.cfg.FailedLogs, time.Now().UTC().Format("20060102-150405.000"))
	if err := os.MkdirAll(keep, 0o750); err != nil {
		return err
	}
	logs, _ := filepath.Glob(filepath.Join(c.dir.path, "node-*.log")) // the pattern is valid
	text := []string{"logs kept in " + keep}
	for _, log := range logs {
		content, err := os.ReadFile(log)
		if err != nil {
			return err
		}
		name := filepath.Base(log)
		if err := os.WriteFile(filepath.Join(keep, name), content, 0o600); err != nil {
			return err
		}
		text = append(text, fmt.Sprintf("--- end of %s", name), string(tail(content)))
	}
	return errors.New(strings.Join(text, "\n"))
}

// tail returns the last whole lines of a log.
func tail(log []byte) []byte {
	log = bytes.TrimSpace(log)
	if len(log) <= tailBytes {
		return log
	}
	log = log[len(log)-tailBytes:]
	if i := bytes.IndexByte(log, '\n'); i >= 0 {
		log = log[i+1:]
	}
	return log
}
