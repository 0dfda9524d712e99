package store

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// DefaultInterval is how often a [File] looks at its file.
const DefaultInterval = time.Second

// FileConfig says how a [File] behaves. The zero value works.
type FileConfig struct {
	// Interval between two looks at the file; 1 s by default, at least 1 ms.
	Interval time.Duration
	// HasData tells whether a topic has records, which fixes its hash, slots,
	// tenant_of and shared. Nil means that every topic has: a file cannot know,
	// and a change that re-routes records breaks their order.
	HasData func(topic string) bool
	// Logger takes a line for each change and each refusal; nil means none.
	Logger *zap.Logger
	// Registerer takes the metrics tenantlane_table_*; nil means none. Two
	// Files on one Registerer need prometheus.WrapRegistererWith.
	Registerer prometheus.Registerer
}

func (c FileConfig) withDefaults() FileConfig {
	if c.Interval == 0 {
		c.Interval = DefaultInterval
	}
	if c.HasData == nil {
		c.HasData = func(string) bool { return true }
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	return c
}

func (c FileConfig) validate() error {
	if c.Interval < time.Millisecond {
		return fmt.Errorf("Interval is %v, must be at least 1ms", c.Interval)
	}
	return nil
}

// File is a [Source] that follows a YAML file and can replace it. Create one
// with [OpenFile].
type File struct {
	*view
	path    string
	cfg     FileConfig
	metrics *viewMetrics
	stop    context.CancelFunc
	watcher sync.WaitGroup

	mu sync.Mutex
	// guards seen, bad and at, and which table follows which: every publish
	// happens under it
	seen uint64    // hash of the bytes last judged
	bad  error     // why the file does not hold the current table; nil if it does
	at   time.Time // when the file last held the current table
}

// OpenFile reads the routing table at path and follows the file until Close is
// called or ctx ends. The file must exist and hold a valid table: an error of
// the content is a [*routing.Error] that names file, line and field.
func OpenFile(ctx context.Context, path string, cfg FileConfig) (*File, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("routing table %s: %w", path, err)
	}
	t, sum, err := load(path)
	if err != nil {
		return nil, err
	}
	f := &File{view: newView(t), path: path, cfg: cfg, seen: sum, at: time.Now()}
	if f.metrics, err = newViewMetrics(f, cfg.Registerer); err != nil {
		return nil, fmt.Errorf("routing table %s: metrics: %w", path, err)
	}
	ctx, f.stop = context.WithCancel(ctx)
	f.watcher.Go(func() { f.watch(ctx) })
	return f, nil
}

// Close stops following the file. The last table stays readable.
func (f *File) Close() error {
	f.stop()
	f.watcher.Wait()
	f.metrics.unregister()
	return nil
}

// Age returns the time since the file was last read and held the current
// table.
func (f *File) Age() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Since(f.at)
}

// Err returns why the file's present content is not the current table, or nil
// if it is.
func (f *File) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.bad
}

func (f *File) watch(ctx context.Context) {
	tick := time.NewTicker(f.cfg.Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f.look()
		}
	}
}

// look reads the file once and publishes what it holds if that is new and good.
func (f *File) look() {
	f.mu.Lock()
	defer f.mu.Unlock()
	content, err := readRegular(f.path)
	if err != nil {
		f.seen = 0 // judge it anew when it is back
		f.refuse(fmt.Errorf("routing table: %w", err))
		return
	}
	if sum := xxhash.Sum64(content); sum != f.seen {
		f.seen = sum
		f.judge(content)
	} else if f.bad == nil {
		f.at = time.Now()
	}
}

// readRegular refuses a pipe or a device in the file's place: to open a pipe
// waits for its writer, and Close would wait for that; a device may never end.
func readRegular(path string) ([]byte, error) {
	if at, err := os.Stat(path); err != nil {
		return nil, err
	} else if !at.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %v is not a regular file", path, at.Mode().Type())
	}
	return os.ReadFile(path)
}

// judge makes content the current table if it may follow the present one.
func (f *File) judge(content []byte) {
	next, err := routing.Parse(f.path, content)
	if err != nil {
		f.refuse(err)
		return
	}
	cur := f.Table()
	if same(cur, next) {
		f.bad, f.at = nil, time.Now()
		return
	}
	if err := f.mayFollow(cur, next); err != nil {
		f.refuse(fmt.Errorf("routing table %s: %w", f.path, err))
		return
	}
	f.cfg.Logger.Info("routing table replaced", zap.String("file", f.path),
		zap.Uint64("revision", next.Revision()), zap.Uint64("was", cur.Revision()))
	f.replaced(next)
}

// replaced publishes what the file holds now.
func (f *File) replaced(t *routing.Table) {
	f.bad, f.at = nil, time.Now()
	f.metrics.loaded()
	f.publish(t)
}

// refuse keeps the current table. It logs once for each reason, since the file
// is looked at every second.
func (f *File) refuse(err error) {
	if f.bad != nil && f.bad.Error() == err.Error() {
		return
	}
	f.bad = err
	f.metrics.refused()
	f.cfg.Logger.Error("routing table refused, the last good one stays", zap.String("file", f.path),
		zap.Uint64("revision", f.Table().Revision()), zap.Error(err))
}

// same tells whether two tables of one revision say the same; their files may
// differ in comments and layout.
func same(a, b *routing.Table) bool {
	if a.Revision() != b.Revision() {
		return false
	}
	x, errX := a.YAML()
	y, errY := b.YAML()
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

func load(path string) (*routing.Table, uint64, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, 0, fmt.Errorf("routing table: %w", err)
	}
	t, err := routing.Parse(path, content)
	if err != nil {
		return nil, 0, err
	}
	return t, xxhash.Sum64(content), nil
}
