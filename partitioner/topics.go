package partitioner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

const (
	// checkTimeout bounds one look at the cluster's topics, and recheck is how
	// long after a look that failed the next one is.
	checkTimeout = 10 * time.Second
	recheck      = 5 * time.Second
	// searchPoll is how often the client is asked whether it knows a partition
	// by now; it tells nobody.
	searchPoll = 5 * time.Millisecond
	// searchAgain is how long the answer that a topic lacks a partition holds,
	// so that a table ahead of its topic does not cost a request per record.
	searchAgain = time.Second
)

// CheckTopics compares the table with the cluster: each topic, and each topic
// that a placement names, must exist and have at least the partitions of the
// table. The error names every topic that does not. Call it at start, where a
// wrong table can still stop the program.
func CheckTopics(ctx context.Context, client *kgo.Client, table *routing.Table) error {
	names := table.TopicNames()
	counts, err := partitionCounts(ctx, client, names)
	if err != nil {
		return fmt.Errorf("routing table revision %d: topics: %w", table.Revision(), err)
	}
	var errs []error
	for _, name := range names {
		topic, _ := table.Topic(name)
		switch n, exists := counts[name]; {
		case !exists:
			errs = append(errs, fmt.Errorf("topic %s of routing table revision %d does not exist", name, table.Revision()))
		case n < topic.Partitions():
			errs = append(errs, fmt.Errorf("topic %s has %d partitions, routing table revision %d is made for %d: %w",
				name, n, table.Revision(), topic.Partitions(), ErrOutOfRange))
		}
	}
	return errors.Join(errs...)
}

// partitionCounts asks the cluster. A topic that does not exist is left out.
func partitionCounts(ctx context.Context, client *kgo.Client, names []string) (map[string]int32, error) {
	req := kmsg.NewPtrMetadataRequest()
	for _, name := range names {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = new(name)
		req.Topics = append(req.Topics, topic)
	}
	if len(names) == 0 {
		return nil, nil
	}
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return nil, err
	}
	counts := make(map[string]int32, len(names))
	for _, topic := range resp.Topics {
		err := kerr.ErrorForCode(topic.ErrorCode)
		if errors.Is(err, kerr.UnknownTopicOrPartition) || topic.Topic == nil {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("topic %s: %w", *topic.Topic, err)
		}
		counts[*topic.Topic] = int32(len(topic.Partitions))
	}
	return counts, nil
}

// watchTable checks the topics of each new table, and makes the client look for
// new partitions before records go there: by itself it would see them after up
// to five minutes.
func (p *Producer) watchTable() {
	for {
		changed := p.src.Changed()
		again := p.checkTable(p.src.Table())
		select {
		case <-changed:
		case <-again:
		case <-p.ctx.Done():
			return
		}
	}
}

// checkTable gives a channel that says when to check again, if it could not.
func (p *Producer) checkTable(table *routing.Table) (again <-chan time.Time) {
	ctx, cancel := context.WithTimeout(p.ctx, checkTimeout)
	defer cancel()
	if p.grown(table) {
		p.client.ForceMetadataRefresh()
	}
	err := CheckTopics(ctx, p.client, table)
	if err != nil && p.ctx.Err() == nil {
		p.cfg.Logger.Error("topics do not fit the routing table",
			zap.Uint64("revision", table.Revision()), zap.Error(err))
		return time.After(recheck)
	}
	return nil
}

// grown tells whether the table names more partitions of a topic than the
// client knows.
func (p *Producer) grown(table *routing.Table) bool {
	return slices.ContainsFunc(table.TopicNames(), func(name string) bool {
		topic, _ := table.Topic(name)
		known := p.destOf(name).count.Load()
		return known > 0 && known < topic.Partitions()
	})
}

// search is one look for a partition that the client does not know.
type search struct {
	partition int32
	done      chan struct{}
	err       error     // of a search that is done
	at        time.Time // when it was done
}

// findPartition waits until the client knows the flight's partition. Records of
// other partitions are not held up.
func (p *Producer) findPartition(f *flight, from *gate) error {
	s := p.searchFor(f.part.dest, f.partition)
	select {
	case <-s.done:
		return s.err
	case <-f.ctx.Done():
		return fmt.Errorf("%w: %w", ErrOutOfRange, f.ctx.Err())
	case <-p.end(from):
		return ErrClosed
	}
}

// searchFor joins the search that is going on, takes the answer of a recent
// one, or begins a new one.
func (p *Producer) searchFor(d *dest, partition int32) *search {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.search; s != nil && s.serves(partition) {
		return s
	}
	s := &search{partition: partition, done: make(chan struct{})}
	d.search = s
	p.lifecycle.start(func() { p.search(d, s) })
	return s
}

func (s *search) serves(partition int32) bool {
	select {
	case <-s.done:
		return s.err != nil && partition >= s.partition && time.Since(s.at) < searchAgain
	default:
		return partition <= s.partition
	}
}

func (p *Producer) search(d *dest, s *search) {
	ctx, cancel := context.WithTimeout(p.ctx, p.cfg.PartitionWait)
	defer cancel()
	defer close(s.done)
	if s.err = p.searchUntil(ctx, d, s.partition); s.err != nil {
		s.err = fmt.Errorf("%w: %w", ErrOutOfRange, s.err)
	}
	s.at = time.Now()
}

func (p *Producer) searchUntil(ctx context.Context, d *dest, partition int32) error {
	counts, err := partitionCounts(ctx, p.client, []string{d.name})
	if err != nil {
		return err
	}
	if n := counts[d.name]; n <= partition {
		return fmt.Errorf("the topic has %d partitions", n)
	}
	p.client.ForceMetadataRefresh()
	poll := time.NewTicker(searchPoll)
	defer poll.Stop()
	for {
		if leader, _, err := p.client.PartitionLeader(d.name, partition); leader >= 0 || err != nil {
			d.saw(max(partition+1, d.count.Load()))
			return nil
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return fmt.Errorf("the client does not know the partition yet: %w", ctx.Err())
		}
	}
}
