package dlq

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/consumer"
)

// Letter is a dead letter.
type Letter struct {
	*kgo.Record                // as it lies in the dead-letter topic
	Origin      consumer.Place // where it lay before
	Group       string         // whose worker gave it up
	Error       string         // why
	Attempts    int            // how often it was handled
	At          time.Time      // when it was given up
	Replays     int            // how often it had been replayed before
}

var errNoLetter = errors.New("not a dead letter")

// Parse reads a letter's headers. Of several sets, which a letter has that was
// replayed and failed again, the last one counts. The error says which header
// is missing or wrong.
func Parse(r *kgo.Record) (Letter, error) {
	l := Letter{Record: r, Origin: consumer.Place{Partition: -1, Offset: -1}}
	var failed error
	number := func(h kgo.RecordHeader, size int) int64 {
		n, err := strconv.ParseInt(string(h.Value), 10, size)
		if err != nil || n < 0 {
			failed = fmt.Errorf("%w: header %s: %q", errNoLetter, h.Key, h.Value)
		}
		return n
	}
	for _, h := range r.Headers {
		switch h.Key {
		case consumer.HeaderDeadTopic:
			l.Origin.Topic = string(h.Value)
		case consumer.HeaderDeadPartition:
			l.Origin.Partition = int32(number(h, 32))
		case consumer.HeaderDeadOffset:
			l.Origin.Offset = number(h, 64)
		case consumer.HeaderDeadAttempts:
			l.Attempts = int(number(h, 32))
		case consumer.HeaderDeadTime:
			l.At = time.UnixMilli(number(h, 64))
		case consumer.HeaderDeadGroup:
			l.Group = string(h.Value)
		case consumer.HeaderDeadError:
			l.Error = string(h.Value)
		case consumer.HeaderReplay:
			l.Replays++
		}
	}
	switch {
	case failed != nil:
		return l, failed
	case l.Origin.Topic == "" || l.Origin.Partition < 0 || l.Origin.Offset < 0:
		return l, fmt.Errorf("%w: it does not say where it lay", errNoLetter)
	}
	return l, nil
}

// replay is the record to write for a letter: its own, without what an earlier
// round of dead-lettering said.
func (l *Letter) replay() *kgo.Record {
	return &kgo.Record{
		Topic: l.Origin.Topic, Partition: l.Origin.Partition, Key: l.Key, Value: l.Value,
		Headers: append(lastRound(l.Headers), kgo.RecordHeader{
			Key:   consumer.HeaderReplay,
			Value: []byte(consumer.Place{Topic: l.Topic, Partition: l.Partition, Offset: l.Offset}.String()),
		}),
	}
}

// deadPrefix begins the headers that dead-lettering adds, consumer.HeaderDead….
const deadPrefix = "tl-dlq-"

// lastRound copies headers but those that dead-lettering added in earlier
// rounds, so that a record that fails again and again does not grow.
func lastRound(headers []kgo.RecordHeader) []kgo.RecordHeader {
	last := make(map[string]int)
	for i, h := range headers {
		last[h.Key] = i
	}
	kept := make([]kgo.RecordHeader, 0, len(headers)+1)
	for i, h := range headers {
		if strings.HasPrefix(h.Key, deadPrefix) && last[h.Key] != i {
			continue
		}
		kept = append(kept, h)
	}
	return kept
}
