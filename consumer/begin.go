package consumer

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/consumer/offset"
	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// begin is where a partition's assignment begins.
type begin struct {
	offset int64 // of the first record to admit; unknownOffset until it is seen
	epoch  int32 // leader epoch that was committed with it, or -1
	fresh  bool  // the group had no commit for the partition
	lost   int64 // offsets between the commit and a later log start

	committed int64 // the commit, or unknownOffset

	behindTable bool // the table could not be read to its end since

	instant    time.Time          // the group's start instant, if it has one
	identity   offset.Identity    // of the partition's commits
	checkpoint *offset.Checkpoint // what the commit's metadata says, if it counts
	start      int64              // of the log; with a checkpoint only
}

const unknownOffset = -1

// beginnings decides where each newly assigned partition begins, from what
// the group committed and what the log still holds:
//
//	committed, within the log ─▶ there
//	committed, below the log start ─▶ the log start; the gap is lost, counted
//	not committed, by StartTime ─▶ the first record stamped at or after it
//	not committed, others of the topic are ─▶ the log start: it was added later
//	  (StartLatest: the first record after the instant in those commits)
//	not committed, nor is any other ─▶ Config.Start
//
// A partition whose log start cannot be listed keeps the commit, or is left to
// the client, so that one leaderless partition holds back no other.
type beginnings struct {
	admin     *kadm.Client
	group     string
	start     Start
	startTime time.Time // of Config; zero: start decides
	made      time.Time // when the Runtime was made: a new group's StartLatest

	fingerprint uint64 // of what forms lane keys, but for the topic's rule; 0: not declared
	ignored     func(tp topicPartition, why offset.Reason)
}

func newBeginnings(admin *kadm.Client, cfg *Config, ignored func(topicPartition, offset.Reason)) *beginnings {
	return &beginnings{
		admin: admin, group: cfg.Group, start: cfg.Start, startTime: cfg.StartTime, made: time.Now(),
		fingerprint: cfg.fingerprint(), ignored: ignored,
	}
}

// resolve returns the beginnings of the partitions in fetched, which is what
// the client fetched of the group's commits (negative: none), with their
// metadata.
func (b *beginnings) resolve(ctx context.Context, fetched map[string]map[int32]kgo.Offset, metadata map[topicPartition]string, ruleOf func(string) routing.TenantRule) (map[topicPartition]begin, error) {
	topics := slices.Sorted(maps.Keys(fetched))
	if len(topics) == 0 {
		return nil, nil
	}
	starts, err := b.admin.ListStartOffsets(ctx, topics...)
	if err != nil && len(starts) == 0 {
		return nil, fmt.Errorf("listing log starts of %v: %w", topics, err)
	}
	known, err := b.admin.Metadata(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("asking for the ids of %v: %w", topics, err)
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("listing log starts of %v: %w", topics, ctx.Err()) // some may be missing
	}
	fresh, instants, err := b.freshStarts(ctx, fetched, starts)
	if err != nil {
		return nil, err
	}
	resolved := make(map[topicPartition]begin)
	for topic, partitions := range fetched {
		id := offset.Identity{
			Cluster: known.Cluster, Topic: known.Topics[topic].ID, Fingerprint: fingerprintOf(b.fingerprint, ruleOf(topic)),
		}
		for p, o := range partitions {
			tp, at := topicPartition{topic, p}, o.EpochOffset()
			first := begin{
				offset: listed(fresh, topic, p), epoch: -1, fresh: true, committed: unknownOffset, instant: instants[topic],
			}
			if at.Offset >= 0 {
				first = clamp(at, listed(starts, topic, p))
				first.instant, _ = parseInstant(metadata[tp])
			}
			first.identity = id
			resolved[tp] = first
		}
	}
	if err := b.checkpoints(ctx, resolved, fetched, metadata, starts); err != nil {
		return nil, err
	}
	return resolved, nil
}

// clamp begins at the commit, or at the log start if that is later.
func clamp(commit kgo.EpochOffset, start int64) begin {
	if start <= commit.Offset {
		return begin{offset: commit.Offset, epoch: commit.Epoch, committed: commit.Offset}
	}
	return begin{offset: start, epoch: -1, committed: commit.Offset, lost: start - commit.Offset}
}

// freshStarts lists where partitions without a commit begin. It asks the
// broker nothing more when all have one, or when they begin at the log start.
func (b *beginnings) freshStarts(ctx context.Context, fetched map[string]map[int32]kgo.Offset, starts kadm.ListedOffsets) (kadm.ListedOffsets, map[string]time.Time, error) {
	topics := topicsWithoutCommit(fetched)
	if len(topics) == 0 || (b.start == StartEarliest && b.startTime.IsZero()) {
		return starts, nil, nil
	}
	instants, err := b.instants(ctx, topics)
	if err != nil {
		return nil, nil, err
	}
	fresh := maps.Clone(starts)
	for topic, at := range instants {
		after, err := b.admin.ListOffsetsAfterMilli(ctx, at.UnixMilli(), topic)
		if err != nil && len(after) == 0 {
			return nil, nil, fmt.Errorf("listing offsets of topic %s after %v: %w", topic, at, err)
		}
		fresh[topic] = after[topic]
	}
	return fresh, instants, nil
}

// instants says for each topic after which time its partitions without a
// commit begin. "Latest" is one instant for the whole group, the one that the
// first member wrote into its commits: with an instant each, or with the end
// of the log, members that start together would skip or repeat what comes in
// between. A topic that is left out begins at its log start.
func (b *beginnings) instants(ctx context.Context, topics []string) (map[string]time.Time, error) {
	at := make(map[string]time.Time, len(topics))
	if !b.startTime.IsZero() {
		for _, t := range topics {
			at[t] = b.startTime
		}
		return at, nil
	}
	committed, err := b.admin.FetchOffsets(ctx, b.group)
	if err != nil {
		return nil, fmt.Errorf("fetching the commits of group %s: %w", b.group, err)
	}
	for _, t := range topics {
		first, found := groupInstant(committed[t])
		switch {
		case !first.IsZero():
			at[t] = first
		case !found:
			at[t] = b.made
		}
	}
	return at, nil
}

// groupInstant returns the earliest start instant in a topic's commits, and
// whether there is any commit.
func groupInstant(partitions map[int32]kadm.OffsetResponse) (first time.Time, found bool) {
	for _, r := range partitions {
		if r.Err != nil || r.At < 0 {
			continue
		}
		found = true
		if at, ok := parseInstant(r.Metadata); ok && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first, found
}

// instantPrefix begins the part of a commit's metadata that holds the group's
// start instant in Unix milliseconds.
const instantPrefix = "t0="

func formatInstant(at time.Time) string {
	return instantPrefix + strconv.FormatInt(at.UnixMilli(), 10)
}

// parseInstant finds the start instant among the space-separated parts of a
// commit's metadata.
func parseInstant(metadata string) (time.Time, bool) {
	for part := range strings.FieldsSeq(metadata) {
		digits, ok := strings.CutPrefix(part, instantPrefix)
		if !ok {
			continue
		}
		if ms, err := strconv.ParseInt(digits, 10, 64); err == nil && ms > 0 {
			return time.UnixMilli(ms), true
		}
	}
	return time.Time{}, false
}

func topicsWithoutCommit(fetched map[string]map[int32]kgo.Offset) []string {
	var topics []string
	for topic, partitions := range fetched {
		for _, o := range partitions {
			if o.EpochOffset().Offset < 0 {
				topics = append(topics, topic)
				break
			}
		}
	}
	slices.Sort(topics)
	return topics
}

// listed returns a partition's listed offset, or unknownOffset.
func listed(offsets kadm.ListedOffsets, topic string, partition int32) int64 {
	o, ok := offsets.Lookup(topic, partition)
	if !ok || o.Err != nil || o.Offset < 0 {
		return unknownOffset
	}
	return o.Offset
}
