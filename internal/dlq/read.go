package dlq

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/internal/sample"
	"github.com/tenantlane/tenantlane/partitioner"
	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// Selection says which letters. The zero value: all of them.
type Selection struct {
	// Tenants are whose letters; none: everybody's.
	Tenants [][]byte
	// Rule is where a letter has its tenant; the zero value is its key.
	Rule routing.TenantRule
	// Group is which group's worker gave it up; "": any.
	Group string
}

// TenantOf is a letter's tenant, or nil.
func (s *Selection) TenantOf(l *Letter) []byte {
	tenant, ok := partitioner.TenantOf(s.Rule, l.Record)
	if !ok {
		return nil
	}
	return tenant
}

func (s *Selection) wants(l *Letter) bool {
	if s.Group != "" && l.Group != s.Group {
		return false
	}
	if len(s.Tenants) == 0 {
		return true
	}
	tenant := string(s.TenantOf(l))
	for _, name := range s.Tenants {
		if string(name) == tenant {
			return true
		}
	}
	return false
}

// box is a dead-letter topic as it was at one moment.
type box struct{ *sample.Marked }

func open(ctx context.Context, client *kgo.Client, topic string) (*box, error) {
	marked, err := sample.OpenMarked(ctx, client, topic)
	if err != nil {
		return nil, err
	}
	return &box{marked}, nil
}

// letters visits the letters of a partition, in order, until visit has an
// error. It returns how many records were neither letters nor marks.
func (b *box) letters(ctx context.Context, of sample.Span, visit func(Letter) error) (foreign int, err error) {
	var failed error
	err = b.Reader.Range(ctx, b.Topic, of, func(r *kgo.Record) bool {
		if _, is := markOf(r); is || r.Attrs.IsControl() {
			return true
		}
		l, wrong := Parse(r)
		if wrong != nil {
			foreign++
			return true
		}
		failed = visit(l)
		return failed == nil
	})
	if err == nil {
		err = failed
	}
	return foreign, err
}

// Listed is a letter in a listing.
type Listed struct {
	Letter
	Tenant   []byte
	Replayed bool
}

// List visits the letters of a dead-letter topic that a selection wants,
// partition after partition, in order. It returns how many records in it are
// neither letters nor marks.
func List(ctx context.Context, client *kgo.Client, topic string, s Selection, visit func(Listed) error) (foreign int, err error) {
	b, err := open(ctx, client, topic)
	if err != nil {
		return 0, err
	}
	for _, of := range b.Spans {
		replayed, err := b.Marks(ctx, of, markOf)
		if err != nil {
			return foreign, err
		}
		n, err := b.letters(ctx, of, func(l Letter) error {
			if !s.wants(&l) {
				return nil
			}
			return visit(Listed{Letter: l, Tenant: s.TenantOf(&l), Replayed: replayed.Has(l.Offset)})
		})
		foreign += n
		if err != nil {
			return foreign, err
		}
	}
	return foreign, nil
}
