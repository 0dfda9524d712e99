package kafka

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Version is the Apache Kafka version that is started, as in pom.xml.
const Version = "4.3.1"

// Config says what to start. The zero value is one node whose files are
// removed by Stop.
type Config struct {
	// Nodes is 1 (default) or 3.
	Nodes int
	// Dir keeps the nodes' data after Stop, so that a later Start with the
	// same directory goes on with it. It is created if missing. Empty means a
	// temporary directory that Stop removes.
	Dir string
	// Port is the port of the first node; the others take Port+1 and Port+2.
	// 0 means free ones.
	Port int
	// Properties are broker settings that replace or extend those of Settings.
	Properties map[string]string
	// KafkaOpts are how the cluster itself logs in to see that it is ready, when
	// Properties ask for a login.
	KafkaOpts []kgo.Opt
	// HeapMB is each node's largest Java heap in MiB; 1024 by default for one
	// node, 512 for three.
	HeapMB int
	// Cache is the folder that keeps the jars; by default "tenantlane" in the
	// user's cache folder.
	Cache string
	// FailedLogs is where the logs of a failed cluster are kept; by default
	// "tenantlane-kafka-logs" in the folder for temporary files.
	FailedLogs string
	// ReadyTimeout bounds the wait for the brokers, 90 s by default.
	ReadyTimeout time.Duration
	// Logf takes one line per thing that is done or takes long; nil: none.
	Logf func(format string, args ...any)
}

func (c Config) withDefaults() Config {
	if c.Nodes == 0 {
		c.Nodes = 1
	}
	if c.HeapMB == 0 {
		c.HeapMB = 1024
		if c.Nodes > 1 {
			c.HeapMB = 512
		}
	}
	if c.Cache == "" {
		c.Cache = defaultCache()
	}
	if c.FailedLogs == "" {
		c.FailedLogs = filepath.Join(os.TempDir(), "tenantlane-kafka-logs")
	}
	if c.ReadyTimeout == 0 {
		c.ReadyTimeout = 90 * time.Second
	}
	if c.Logf == nil {
		c.Logf = func(string, ...any) {}
	}
	return c
}

func (c Config) validate() error {
	if c.Nodes != 1 && c.Nodes != 3 {
		return fmt.Errorf("config: Nodes is %d, must be 1 or 3", c.Nodes)
	}
	if c.Port < 0 || c.Port > 65535-c.Nodes {
		return fmt.Errorf("config: Port is %d, must be a port number or 0", c.Port)
	}
	if c.HeapMB < 0 {
		return fmt.Errorf("config: HeapMB is %d, must not be negative", c.HeapMB)
	}
	if c.ReadyTimeout < 0 {
		return fmt.Errorf("config: ReadyTimeout is %s, must not be negative", c.ReadyTimeout)
	}
	return nil
}

func defaultCache() string {
	dir, err := os.UserCacheDir()
	if err != nil { // no home directory
		dir = os.TempDir()
	}
	return filepath.Join(dir, "tenantlane")
}
