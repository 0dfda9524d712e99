package stale

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/consumer"
	"github.com/tenantlane/tenantlane/internal/marks"
	"github.com/tenantlane/tenantlane/internal/sample"
	"github.com/tenantlane/tenantlane/partitioner"
	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// HeaderDone makes a record a mark. Its value are the offsets of the letters in
// the record's own partition that are dealt with, as text such as "7,9-12";
// HeaderHow says what was done.
const (
	HeaderDone = "tl-stale-done"
	HeaderHow  = "tl-stale-how"
)

// The values of HeaderHow.
const (
	howReplayed = "replayed"
	howDropped  = "dropped"
)

// MarkEvery is how many letters are dealt with between two marks at most.
const MarkEvery = 100

// markOf reads a record's mark. False: it is none.
func markOf(r *kgo.Record) (offsets string, ok bool) {
	for _, h := range r.Headers {
		if h.Key == HeaderDone && r.Key == nil && r.Value == nil {
			return string(h.Value), true
		}
	}
	return "", false
}

// IsMark tells whether a record of a quarantine topic says what was done with
// others, instead of being one that was set aside.
func IsMark(r *kgo.Record) bool {
	_, ok := markOf(r)
	return ok
}

// mark makes the record that says that letters of a partition are dealt with.
// Their offsets ascend.
func mark(topic string, partition int32, offsets []int64, how string) *kgo.Record {
	return &kgo.Record{Topic: topic, Partition: partition, Headers: []kgo.RecordHeader{
		{Key: HeaderDone, Value: []byte(marks.Format(offsets))}, {Key: HeaderHow, Value: []byte(how)},
	}}
}

// Selection says which letters. The zero value: all of them, whose tenants are
// their keys.
type Selection struct {
	// Tenants are whose letters; none: everybody's.
	Tenants [][]byte
	// Rule is where a record has its tenant; the zero value is its key.
	Rule routing.TenantRule
}

// TenantOf is a letter's tenant, or nil.
func (s *Selection) TenantOf(l *Letter) []byte {
	tenant, ok := partitioner.TenantOf(s.Rule, l.original())
	if !ok {
		return nil
	}
	return tenant
}

func (s *Selection) wants(tenant []byte) bool {
	return len(s.Tenants) == 0 || slices.ContainsFunc(s.Tenants, func(name []byte) bool { return string(name) == string(tenant) })
}

// readBytes is how much one fetch of a home asks for.
const readBytes = 4 << 20

// box is a quarantine topic as it was at one moment.
type box struct{ *sample.Marked }

func open(ctx context.Context, client *kgo.Client, topic string) (*box, error) {
	marked, err := sample.OpenMarked(ctx, client, topic)
	if err != nil {
		return nil, err
	}
	return &box{marked}, nil
}

// found is a letter as a visit gets it.
type found struct {
	Letter
	tenant []byte
	copied bool // another group wrote it before
	done   bool // it, or a copy of it, is dealt with
}

// letters visits the letters of a partition that a selection wants, in order,
// until visit has an error. It returns how many records were neither letters nor
// marks.
func (b *box) letters(ctx context.Context, of sample.Span, s *Selection, visit func(found) error) (foreign int, err error) {
	dealt, err := b.Marks(ctx, of, markOf)
	if err != nil {
		return 0, err
	}
	done, err := b.doneOrigins(ctx, of, dealt)
	if err != nil {
		return 0, err
	}
	seen := map[consumer.Place]bool{}
	var failed error
	err = b.each(ctx, of, func(l Letter) bool {
		f := found{Letter: l, tenant: s.TenantOf(&l), copied: seen[l.Origin], done: done[l.Origin]}
		seen[l.Origin] = true
		if s.wants(f.tenant) {
			failed = visit(f)
		}
		return failed == nil
	}, &foreign)
	if err == nil {
		err = failed
	}
	return foreign, err
}

// doneOrigins are the records of which a letter is marked: the copies that other
// groups wrote, also later ones, are then dealt with too.
func (b *box) doneOrigins(ctx context.Context, of sample.Span, dealt *marks.Set) (map[consumer.Place]bool, error) {
	done := map[consumer.Place]bool{}
	foreign := 0
	err := b.each(ctx, of, func(l Letter) bool {
		if dealt.Has(l.Offset) {
			done[l.Origin] = true
		}
		return true
	}, &foreign)
	return done, err
}

// each visits every letter of a partition.
func (b *box) each(ctx context.Context, of sample.Span, visit func(Letter) bool, foreign *int) error {
	return b.Reader.Range(ctx, b.Topic, of, func(r *kgo.Record) bool {
		if _, is := markOf(r); is || r.Attrs.IsControl() {
			return true
		}
		l, wrong := Parse(r)
		if wrong != nil {
			*foreign++
			return true
		}
		return visit(l)
	})
}
