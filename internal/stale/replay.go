package stale

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/consumer"
	"github.com/tenantlane/tenantlane/internal/sample"
	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// HeaderOrigin says on a replayed record where it lay when it was stale, as
// topic/partition/offset.
const HeaderOrigin = "tl-stale-origin"

// chunk is how many letters are looked for in one scan of their homes, which
// bounds the memory that it takes.
const chunk = 10_000

// markTimeout bounds the mark of a run that is interrupted.
const markTimeout = 5 * time.Second

var errNoOffsets = errors.New("no answer")

// Sender sends a record to its tenant's home; partitioner.Producer is one.
type Sender interface {
	// ProduceSync sends a record as a new one.
	ProduceSync(ctx context.Context, rs ...*kgo.Record) kgo.ProduceResults
	// Resend sends a record with the session and the sequence that it was sent
	// with first.
	Resend(ctx context.Context, r *kgo.Record, session [16]byte, seq uint64) error
}

// Config says what a replay does. Topic, Table and, unless it is a dry run,
// Sender are required.
type Config struct {
	// Topic is the quarantine topic.
	Topic string
	// Selection says which letters.
	Selection
	// Table says where tenants are.
	Table *routing.Table
	// Sender sends records.
	Sender Sender
	// Limit is how many letters are sent at most; 0: no limit.
	Limit int
	// DryRun scans, counts, and writes nothing.
	DryRun bool
	// Progress, if not nil, is told the number of letters dealt with.
	Progress func(done int64)
}

// Report is what a replay or a drop did.
type Report struct {
	Letters  int   // records in quarantine, without copies
	Replayed int   // sent, or in a dry run to be sent
	Present  int   // found in a home of their tenant, so not sent
	Dropped  int   // marked as not wanted
	Before   int   // were dealt with before
	Copies   int   // written by a second group
	Foreign  int   // are no letters
	Tenants  int   // whose letters were sent or dropped
	Scanned  int64 // records of homes that were read
}

var errLimit = errors.New("as many as wanted")

// Replay sends letters to their tenants' homes, unless they are there already.
// The client partitions by hand (kgo.ManualPartitioner). After an error, and
// when ctx ends, the report says what was done until then, and that is marked.
func Replay(ctx context.Context, client *kgo.Client, cfg Config) (Report, error) {
	r := &run{cfg: cfg, how: howReplayed}
	return r.do(ctx, client)
}

// Drop marks letters as dealt with and sends none. Of the Config, Table and
// Sender do not matter.
func Drop(ctx context.Context, client *kgo.Client, cfg Config) (Report, error) {
	r := &run{cfg: cfg, how: howDropped}
	return r.do(ctx, client)
}

// run is a replay or a drop under way.
type run struct {
	cfg     Config
	how     string
	client  *kgo.Client
	scanner *scanner
	report  Report
	tenants map[string]struct{}

	// of the partition under way:
	partition int32
	waiting   []found // for the next scan
	done      []int64 // dealt with and not marked
}

func (r *run) do(ctx context.Context, client *kgo.Client) (Report, error) {
	b, err := open(ctx, client, r.cfg.Topic)
	if err != nil {
		return Report{}, err
	}
	reader, err := sample.NewReader(client, sample.Config{MaxBytes: readBytes})
	if err != nil {
		return Report{}, err
	}
	r.client, r.tenants = client, map[string]struct{}{}
	r.scanner = &scanner{reader: reader, admin: kadm.NewClient(client), table: r.cfg.Table, fences: map[consumer.Place]time.Time{}}
	for _, of := range b.Spans {
		if err = r.doPartition(ctx, b, of); err != nil {
			break
		}
	}
	if errors.Is(err, errLimit) {
		err = nil
	}
	r.report.Tenants, r.report.Scanned = len(r.tenants), r.scanner.scanned
	return r.report, err
}

func (r *run) doPartition(ctx context.Context, b *box, of sample.Span) error {
	r.partition, r.waiting, r.done = of.Partition, nil, nil
	foreign, err := b.letters(ctx, of, &r.cfg.Selection, func(f found) error { return r.visit(ctx, f) })
	r.report.Foreign += foreign
	if err == nil {
		err = r.flush(ctx)
	}
	return errors.Join(err, r.mark(ctx))
}

// visit decides about a letter.
func (r *run) visit(ctx context.Context, f found) error {
	switch {
	case f.copied:
		r.report.Copies++
		return ctx.Err()
	case f.done:
		r.report.Letters++
		r.report.Before++
		return ctx.Err()
	}
	r.report.Letters++
	r.waiting = append(r.waiting, f)
	if len(r.waiting) < chunk {
		return ctx.Err()
	}
	return r.flush(ctx)
}

// flush deals with the letters that wait.
func (r *run) flush(ctx context.Context) error {
	letters := r.waiting
	r.waiting = nil
	if len(letters) == 0 {
		return ctx.Err()
	}
	if r.how == howDropped {
		return r.drop(ctx, letters)
	}
	there, err := r.scanner.present(ctx, letters)
	if err != nil {
		return err
	}
	for i := range letters {
		if there[letters[i].identity()] {
			r.report.Present++
			err = r.dealt(ctx, &letters[i])
		} else {
			err = r.send(ctx, &letters[i])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *run) drop(ctx context.Context, letters []found) error {
	for i := range letters {
		r.report.Dropped++
		r.tenants[string(letters[i].tenant)] = struct{}{}
		if err := r.dealt(ctx, &letters[i]); err != nil {
			return err
		}
	}
	return nil
}

// send sends a letter's record, and returns once it is written.
func (r *run) send(ctx context.Context, f *found) error {
	if r.cfg.Limit > 0 && r.report.Replayed >= r.cfg.Limit {
		return errLimit
	}
	if !r.cfg.DryRun {
		if err := r.write(ctx, f); err != nil {
			return fmt.Errorf("sending the record that lay at %s again: %w", f.Origin, err)
		}
	}
	r.report.Replayed++
	r.tenants[string(f.tenant)] = struct{}{}
	return r.dealt(ctx, f)
}

func (r *run) write(ctx context.Context, f *found) error {
	record := f.original()
	record.Headers = append(record.Headers, kgo.RecordHeader{Key: HeaderOrigin, Value: []byte(f.Origin.String())})
	if f.Stamped {
		return r.cfg.Sender.Resend(ctx, record, f.Route.Session, f.Route.Seq)
	}
	return r.cfg.Sender.ProduceSync(ctx, record).FirstErr()
}

// dealt notes that a letter is dealt with, and marks when there are many.
func (r *run) dealt(ctx context.Context, f *found) error {
	r.done = append(r.done, f.Offset)
	if r.cfg.Progress != nil {
		r.cfg.Progress(int64(r.report.Replayed + r.report.Present + r.report.Dropped))
	}
	if len(r.done) < MarkEvery {
		return ctx.Err()
	}
	return errors.Join(r.mark(ctx), ctx.Err())
}

// mark writes down what is dealt with, also when ctx has ended.
func (r *run) mark(ctx context.Context) error {
	done := r.done
	r.done = nil
	if len(done) == 0 || r.cfg.DryRun {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), markTimeout)
	defer cancel()
	if err := r.client.ProduceSync(ctx, mark(r.cfg.Topic, r.partition, done, r.how)).FirstErr(); err != nil {
		return fmt.Errorf("marking %d letters of %s/%d, which will be looked at again: %w", len(done), r.cfg.Topic, r.partition, err)
	}
	return nil
}
