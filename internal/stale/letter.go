package stale

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/consumer"
	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// Letter is a record in quarantine.
type Letter struct {
	*kgo.Record                // as it lies in the quarantine topic
	Origin      consumer.Place // where it lay before
	OriginKey   []byte         // its key there
	consumer.Staleness
	Group string              // whose worker met it
	At    time.Time           // when
	Route routing.RouteHeader // by which it was routed
	// Stamped is true if it has a Route: it came through partitioner.Producer.
	Stamped bool
}

var errNoLetter = errors.New("not a record in quarantine")

// Parse reads a letter's key and headers. The error says what is missing or
// wrong.
func Parse(r *kgo.Record) (Letter, error) {
	l := Letter{Record: r}
	var err error
	if l.Origin, err = parsePlace(string(r.Key)); err != nil {
		return l, err
	}
	for _, h := range r.Headers {
		if err := l.header(h); err != nil {
			return l, fmt.Errorf("%w: header %s: %w", errNoLetter, h.Key, err)
		}
	}
	if l.Reason == "" {
		return l, fmt.Errorf("%w: it does not say why it is here", errNoLetter)
	}
	return l, nil
}

func (l *Letter) header(h kgo.RecordHeader) (err error) {
	text := string(h.Value)
	switch h.Key {
	case consumer.HeaderStaleReason:
		l.Reason = text
	case consumer.HeaderStaleKey:
		l.OriginKey = h.Value
	case consumer.HeaderStaleMove:
		l.Move = text
	case consumer.HeaderStaleFence:
		l.Fence, err = strconv.ParseInt(text, 10, 64)
	case consumer.HeaderStaleEpoch:
		l.Epoch, err = strconv.ParseUint(text, 10, 64)
	case consumer.HeaderStaleGroup:
		l.Group = text
	case consumer.HeaderStaleTime:
		var ms int64
		ms, err = strconv.ParseInt(text, 10, 64)
		l.At = time.UnixMilli(ms)
	case routing.HeaderRoute:
		if route, wrong := routing.ParseRouteHeader(h.Value); wrong == nil {
			l.Route, l.Stamped = route, true
		}
	}
	return err
}

// parsePlace is the reverse of consumer.Place.String. A topic's name holds no
// slash.
func parsePlace(text string) (consumer.Place, error) {
	parts := strings.Split(text, "/")
	if len(parts) != 3 || parts[0] == "" {
		return consumer.Place{}, fmt.Errorf("%w: its key %q is not topic/partition/offset", errNoLetter, text)
	}
	partition, err := strconv.ParseInt(parts[1], 10, 32)
	offset, wrong := strconv.ParseInt(parts[2], 10, 64)
	at := consumer.Place{Topic: parts[0], Partition: int32(partition), Offset: offset}
	if err != nil || wrong != nil || partition < 0 || offset < 0 || at.String() != text {
		return consumer.Place{}, fmt.Errorf("%w: its key %q is not topic/partition/offset", errNoLetter, text)
	}
	return at, nil
}

// stalePrefix begins the headers that quarantine adds, consumer.HeaderStale….
const stalePrefix = "tl-stale-"

// original is the record as its producer made it, but for its stamp, which the
// caller decides about.
func (l *Letter) original() *kgo.Record {
	own := slices.Clone(l.Headers)
	own = slices.DeleteFunc(own, func(h kgo.RecordHeader) bool {
		return strings.HasPrefix(h.Key, stalePrefix)
	})
	return &kgo.Record{Topic: l.Origin.Topic, Key: l.OriginKey, Value: l.Value, Headers: own}
}
