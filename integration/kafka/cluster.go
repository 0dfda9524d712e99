package kafka

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Cluster is a running cluster of real brokers. Nodes are numbered from 1. Its
// methods may be called from any goroutine.
type Cluster struct {
	cfg    Config
	lib    string
	dir    *workdir
	addrs  []address
	nodes  []*node
	failed atomic.Bool
	stop   func() error
}

// Start starts brokers and waits until they serve. It returns an error that
// wraps ErrNoTools if java or mvn is missing. Canceling ctx ends the wait,
// not the started cluster.
func Start(ctx context.Context, cfg Config) (*Cluster, error) {
	cfg = cfg.withDefaults()
	c := &Cluster{cfg: cfg}
	if err := c.prepare(ctx); err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	c.stop = sync.OnceValue(c.end)
	began := time.Now()
	if err := c.launch(ctx); err != nil {
		c.KeepLogs()
		return nil, fmt.Errorf("kafka: %w", errors.Join(err, c.Stop()))
	}
	cfg.Logf("Apache Kafka %s: %d node(s) on %s, pid %v, ready after %.1f s",
		Version, cfg.Nodes, strings.Join(c.Addrs(), ","), c.pids(), time.Since(began).Seconds())
	return c, nil
}

// prepare does all that needs no process: it leaves nothing behind on error.
func (c *Cluster) prepare(ctx context.Context) error {
	if err := c.cfg.validate(); err != nil {
		return err
	}
	if err := Available(); err != nil {
		return err
	}
	var err error
	if c.lib, err = jars(ctx, c.cfg.Cache, c.cfg.Logf); err != nil {
		return err
	}
	if c.addrs, err = addresses(c.cfg.Nodes, c.cfg.Port); err != nil {
		return err
	}
	c.dir, err = openWorkdir(c.cfg.Dir, os.TempDir())
	return err
}

// launch writes the configuration, formats what is not formatted yet, starts
// all nodes and waits for them.
func (c *Cluster) launch(ctx context.Context) error {
	id, err := clusterID(filepath.Join(c.dir.path, "cluster.id"))
	if err != nil {
		return err
	}
	for i := range c.addrs {
		n, err := c.newNode(i + 1)
		if err != nil {
			return err
		}
		if err := c.format(ctx, n, id); err != nil {
			return err
		}
		if err := n.start(); err != nil {
			return err
		}
		c.nodes = append(c.nodes, n)
	}
	return c.ready(ctx)
}

// clusterID returns the id in the file, or writes a new one there.
func clusterID(file string) (string, error) {
	old, err := os.ReadFile(file)
	if err == nil {
		return string(old), nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	var id [16]byte
	rand.Read(id[:])
	id[0] &= 0x7f // an id that starts with '-' would be taken for a flag
	text := base64.RawURLEncoding.EncodeToString(id[:])
	return text, os.WriteFile(file, []byte(text), 0o600)
}

func (c *Cluster) newNode(id int) (*node, error) {
	dir := filepath.Join(c.dir.path, "node-"+strconv.Itoa(id))
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "server.properties")
	props := properties(id, c.addrs, filepath.Join(dir, "data"), c.cfg.Properties)
	if err := os.WriteFile(config, []byte(encode(props)), 0o600); err != nil {
		return nil, err
	}
	java := []string{
		"java", "-Xmx" + strconv.Itoa(c.cfg.HeapMB) + "m", "-cp", filepath.Join(c.lib, "*"),
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.showDateTime=true",
		"-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
		"kafka.Kafka", config,
	}
	return &node{id: id, java: java, log: filepath.Join(c.dir.path, fmt.Sprintf("node-%d.log", id))}, nil
}

// format writes what a node's data directory must hold before its first start.
func (c *Cluster) format(ctx context.Context, n *node, clusterID string) error {
	config := n.java[len(n.java)-1]
	out, err := exec.CommandContext(ctx, "java", "-XX:TieredStopAtLevel=1", "-cp", filepath.Join(c.lib, "*"),
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "kafka.tools.StorageTool",
		"format", "--ignore-formatted", "-t", clusterID, "-c", config).CombinedOutput()
	if err != nil {
		return fmt.Errorf("node %d: formatting its directory: %w\n%s", n.id, err, out)
	}
	return nil
}

// Addrs returns each node's host:port, for kgo.SeedBrokers.
func (c *Cluster) Addrs() []string {
	addrs := make([]string, len(c.addrs))
	for i, a := range c.addrs {
		addrs[i] = a.client
	}
	return addrs
}

func (c *Cluster) node(id int) (*node, error) {
	if id < 1 || id > len(c.nodes) {
		return nil, fmt.Errorf("kafka: there is no node %d, only 1 to %d", id, len(c.nodes))
	}
	return c.nodes[id-1], nil
}

// Kill ends a node with SIGKILL, as a crash does, and returns when it is gone.
func (c *Cluster) Kill(id int) error {
	n, err := c.node(id)
	if err != nil {
		return err
	}
	c.cfg.Logf("node %d: kill -9 %d", id, n.pid())
	return n.kill()
}

// Restart starts a killed node again, on its port and its data, and waits
// until the cluster has it back.
func (c *Cluster) Restart(ctx context.Context, id int) error {
	n, err := c.node(id)
	if err != nil {
		return err
	}
	if err := n.start(); err != nil {
		return fmt.Errorf("kafka: %w", err)
	}
	c.cfg.Logf("node %d: started again, pid %d", id, n.pid())
	return c.ready(ctx)
}

// Pause stops a node's process without ending it (SIGSTOP): its connections
// stay open and answer nothing, as on a hung machine.
func (c *Cluster) Pause(id int) error { return c.signal(id, syscall.SIGSTOP) }

// Resume lets a paused node go on.
func (c *Cluster) Resume(id int) error { return c.signal(id, syscall.SIGCONT) }

func (c *Cluster) signal(id int, sig syscall.Signal) error {
	n, err := c.node(id)
	if err != nil {
		return err
	}
	return n.signal(sig, false)
}

// running returns how many nodes have a process.
func (c *Cluster) running() int {
	count := 0
	for _, pid := range c.pids() {
		if pid != 0 {
			count++
		}
	}
	return count
}

func (c *Cluster) pids() []int {
	pids := make([]int, len(c.nodes))
	for i, n := range c.nodes {
		pids[i] = n.pid()
	}
	return pids
}

// died returns the nodes that ended by themselves.
func (c *Cluster) died() error {
	var errs []error
	for _, n := range c.nodes {
		errs = append(errs, n.failure())
	}
	return errors.Join(errs...)
}
