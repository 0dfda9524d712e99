package embedded

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"

	"github.com/twmb/franz-go/pkg/kfake"
	"go.uber.org/zap"
)

// DefaultPartitions is how many partitions a topic gets that is created
// without a count.
const DefaultPartitions = 32

// ClusterID is what the broker calls itself unless Config.ClusterID is set.
const ClusterID = "tenantlane-embedded"

// Config says how to start the broker. The zero value works: one node on a
// free loopback port, everything in memory.
type Config struct {
	// Listen is the host and port of the first node, "127.0.0.1:0" by default;
	// port 0 means any free one. The host must be an address that clients can
	// dial, so not 0.0.0.0 or [::]. Further nodes take free ports.
	Listen string
	// Nodes is the number of broker nodes, 1 by default.
	Nodes int
	// Partitions is the default partition count of new topics,
	// DefaultPartitions if 0.
	Partitions int
	// AutoCreate lets a client's metadata request create the topic it names.
	// It is off by default, as it should be in production: a misspelled topic
	// is then an error instead of a new topic.
	AutoCreate bool
	// DataDir keeps all state on disk, and is created if it is missing. Empty
	// means in memory only.
	DataDir string
	// ClusterID is the cluster's id; ClusterID the constant if empty.
	ClusterID string
	// Logger takes the broker's own log; nil means none.
	Logger *zap.Logger
	// Options are passed to kfake after everything above, for tests that need
	// SASL, ACLs, seeded topics or a virtual network.
	Options []kfake.Opt
}

func (c Config) withDefaults() Config {
	if c.Listen == "" {
		c.Listen = "127.0.0.1:0"
	}
	if c.Nodes == 0 {
		c.Nodes = 1
	}
	if c.Partitions == 0 {
		c.Partitions = DefaultPartitions
	}
	if c.ClusterID == "" {
		c.ClusterID = ClusterID
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	return c
}

func (c Config) validate() error {
	host, port, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return fmt.Errorf("Listen %q is not host:port: %w", c.Listen, err)
	}
	if addr, err := netip.ParseAddr(host); host == "" || err == nil && addr.IsUnspecified() {
		return fmt.Errorf("Listen %q: clients are told to dial this host, so it must name one", c.Listen)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("Listen %q: port %q is not a number from 0 to 65535", c.Listen, port)
	}
	if c.Nodes < 0 {
		return fmt.Errorf("Nodes is %d, must not be negative", c.Nodes)
	}
	if c.Partitions < 0 {
		return fmt.Errorf("Partitions is %d, must not be negative", c.Partitions)
	}
	return nil
}

// Broker is a running embedded broker. Its methods may be called from any
// goroutine.
type Broker struct {
	cluster *kfake.Cluster
	addrs   []string
	close   func() error
}

// Start starts a broker and returns once its listeners are bound. It fails on
// a Config that names no usable address, on a port in use, and on a data
// directory that is in use or cannot be read.
func Start(cfg Config) (*Broker, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("embedded broker: %w", err)
	}
	unlock := func() error { return nil }
	if cfg.DataDir != "" {
		var err error
		if unlock, err = lockDir(cfg.DataDir); err != nil {
			return nil, fmt.Errorf("embedded broker: data directory: %w", err)
		}
	}
	cluster, err := kfake.NewCluster(options(cfg)...)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("embedded broker on %s: %w", cfg.Listen, err), unlock())
	}
	return &Broker{
		cluster: cluster,
		addrs:   cluster.ListenAddrs(),
		close:   sync.OnceValue(func() error { cluster.Close(); return unlock() }),
	}, nil
}

func options(cfg Config) []kfake.Opt {
	opts := []kfake.Opt{
		kfake.NumBrokers(cfg.Nodes),
		kfake.DefaultNumPartitions(cfg.Partitions),
		kfake.ClusterID(cfg.ClusterID),
		kfake.ListenFn(listenFirstOn(cfg.Listen)),
		kfake.WithLogger(zapLogger{cfg.Logger.Sugar()}),
	}
	if cfg.AutoCreate {
		opts = append(opts, kfake.AllowAutoTopicCreation())
	}
	if cfg.DataDir != "" {
		opts = append(opts, kfake.DataDir(cfg.DataDir))
	}
	return append(opts, cfg.Options...)
}

// listenFirstOn binds the first node to addr and the others to free ports of
// the same host. kfake itself only takes ports, always on 127.0.0.1.
func listenFirstOn(addr string) func(network, address string) (net.Listener, error) {
	next := addr
	return func(network, _ string) (net.Listener, error) {
		l, err := net.Listen(network, next)
		host, _, _ := net.SplitHostPort(addr)
		next = net.JoinHostPort(host, "0")
		return l, err
	}
}

// Addrs returns the host:port of each node, for kgo.SeedBrokers.
func (b *Broker) Addrs() []string { return append([]string(nil), b.addrs...) }

// Cluster returns the kfake cluster, through which tests inject faults.
func (b *Broker) Cluster() *kfake.Cluster { return b.cluster }

// Close stops the broker, ends its connections and, with a data directory,
// writes what is not on disk yet. A second call does nothing more. The error
// is the data directory's.
func (b *Broker) Close() error { return b.close() }

// zapLogger passes kfake's log on.
type zapLogger struct{ log *zap.SugaredLogger }

// Logf implements kfake.Logger.
func (l zapLogger) Logf(level kfake.LogLevel, format string, args ...any) {
	switch level {
	case kfake.LogLevelError:
		l.log.Errorf(format, args...)
	case kfake.LogLevelWarn:
		l.log.Warnf(format, args...)
	case kfake.LogLevelInfo:
		l.log.Infof(format, args...)
	case kfake.LogLevelDebug:
		l.log.Debugf(format, args...)
	case kfake.LogLevelNone:
	}
}
