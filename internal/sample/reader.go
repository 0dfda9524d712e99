package sample

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"
)

// Config says how much a look costs. The zero value works.
type Config struct {
	// Places is how many random places Random reads; default 16.
	Places int
	// PerPlace is how many records are taken at each place, at most: records
	// of one batch resemble each other. Default 16.
	PerPlace int
	// MaxBytes caps the fetch at each place, in bytes; default 64 KiB.
	MaxBytes int32
	// Parallel is how many fetches run at once; default 4.
	Parallel int
	// Rand chooses the places; default: a new source seeded at random.
	Rand *rand.Rand
}

func (c Config) withDefaults() Config {
	if c.Places == 0 {
		c.Places = 16
	}
	if c.PerPlace == 0 {
		c.PerPlace = 16
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = 64 << 10
	}
	if c.Parallel == 0 {
		c.Parallel = 4
	}
	if c.Rand == nil {
		c.Rand = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	return c
}

func (c Config) validate() error {
	switch {
	case c.Places < 0:
		return fmt.Errorf("Places %d: must not be negative", c.Places)
	case c.PerPlace < 0:
		return fmt.Errorf("PerPlace %d: must not be negative", c.PerPlace)
	case c.MaxBytes < 0:
		return fmt.Errorf("MaxBytes %d: must not be negative", c.MaxBytes)
	case c.Parallel < 0:
		return fmt.Errorf("Parallel %d: must not be negative", c.Parallel)
	}
	return nil
}

// Reader reads samples through a client, which it borrows. It is safe for
// concurrent use.
type Reader struct {
	client *kgo.Client
	cfg    Config
	unzip  kgo.Decompressor

	mu sync.Mutex
	// guards cfg.Rand and leaders
	leaders map[string]topicLeaders
}

// NewReader returns a reader that uses client for its requests. The error
// names a field of cfg that cannot be used.
func NewReader(client *kgo.Client, cfg Config) (*Reader, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("sample: config: %w", err)
	}
	return &Reader{
		client: client, cfg: cfg.withDefaults(), unzip: kgo.DefaultDecompressor(),
		leaders: make(map[string]topicLeaders),
	}, nil
}

// Random visits records of a partition from random places in [from, to), in
// the order of offsets and from one goroutine at a time, and returns how many.
// Records keep their fetch's memory: copy what is kept.
func (r *Reader) Random(ctx context.Context, topic string, partition int32, from, to int64, visit func(*kgo.Record)) (int, error) {
	r.mu.Lock()
	at := places(r.cfg.Rand, from, to, r.cfg.Places)
	r.mu.Unlock()
	return r.read(ctx, topic, partition, at, to, visit)
}

// read fetches all places in parallel and visits their records in order. A
// place ends where the next begins.
func (r *Reader) read(ctx context.Context, topic string, partition int32, at []int64, to int64, visit func(*kgo.Record)) (int, error) {
	found := make([][]*kgo.Record, len(at))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(r.cfg.Parallel)
	for i, offset := range at {
		g.Go(func() (err error) {
			found[i], err = r.place(gctx, topic, partition, offset)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return 0, fmt.Errorf("topic %q partition %d: %w", topic, partition, err)
	}
	n := 0
	for i, records := range found {
		end := to
		if i+1 < len(at) {
			end = at[i+1]
		}
		for _, rec := range records {
			if rec.Offset >= end {
				break
			}
			visit(rec)
			n++
		}
	}
	return n, nil
}

// place fetches the first records at an offset. An offset that retention has
// deleted meanwhile is an empty place.
func (r *Reader) place(ctx context.Context, topic string, partition int32, offset int64) ([]*kgo.Record, error) {
	got, err := r.fetch(ctx, fetchAt{topic, partition, offset, r.cfg.MaxBytes, kgo.ReadUncommitted()})
	if errors.Is(err, kerr.OffsetOutOfRange) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return got.records[:min(len(got.records), r.cfg.PerPlace)], nil
}

// topicLeaders is where a topic's partitions are.
type topicLeaders struct {
	id      [16]byte
	leaders map[int32]int32
}

// leader returns the topic's id and the partition's leader, from memory unless
// it was forgotten.
func (r *Reader) leader(ctx context.Context, topic string, partition int32) ([16]byte, int32, error) {
	r.mu.Lock()
	t, ok := r.leaders[topic]
	r.mu.Unlock()
	if !ok {
		var err error
		if t, err = r.loadLeaders(ctx, topic); err != nil {
			return t.id, 0, err
		}
		r.mu.Lock()
		r.leaders[topic] = t
		r.mu.Unlock()
	}
	leader, ok := t.leaders[partition]
	if !ok {
		return t.id, 0, kerr.UnknownTopicOrPartition
	}
	if leader < 0 {
		r.forget(topic)
		return t.id, 0, kerr.LeaderNotAvailable
	}
	return t.id, leader, nil
}

func (r *Reader) forget(topic string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.leaders, topic)
}

func (r *Reader) loadLeaders(ctx context.Context, topic string) (topicLeaders, error) {
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = new(topic)
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, r.client)
	if err != nil {
		return topicLeaders{}, fmt.Errorf("metadata: %w", err)
	}
	for _, got := range resp.Topics {
		if got.Topic == nil || *got.Topic != topic {
			continue
		}
		if err := kerr.ErrorForCode(got.ErrorCode); err != nil {
			return topicLeaders{}, err
		}
		out := topicLeaders{id: got.TopicID, leaders: make(map[int32]int32, len(got.Partitions))}
		for _, p := range got.Partitions {
			out.leaders[p.Partition] = p.Leader
		}
		return out, nil
	}
	return topicLeaders{}, kerr.UnknownTopicOrPartition
}
