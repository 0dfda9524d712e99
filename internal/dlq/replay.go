package dlq

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/consumer"
	"github.com/tenantlane/tenantlane/internal/sample"
)

// MarkEvery is how many letters are replayed between two marks: so many repeat
// after a replay that was cut off.
const MarkEvery = 100

// markTimeout bounds the mark of a replay that is interrupted.
const markTimeout = 5 * time.Second

// Config says what a replay does. Topic is required.
type Config struct {
	// Topic is the dead-letter topic.
	Topic string
	// Selection says which letters.
	Selection
	// Limit is how many letters are replayed at most; 0: no limit.
	Limit int
	// Rate is how many a second at most; 0: no limit.
	Rate float64
	// Moved says that a letter's tenant does not go to its partition any
	// more; nil: none. Such letters stay.
	Moved func(l *Letter, tenant []byte) bool
	// DryRun counts and writes nothing.
	DryRun bool
	// Progress, if not nil, is told the number of letters replayed.
	Progress func(replayed int64)
}

// Report is what a replay did.
type Report struct {
	Letters  int // letters in the topic
	Replayed int // or, in a dry run, that would be
	Before   int // were replayed before
	Twice    int // are copies of another letter
	Moved    int // are of tenants that have moved
	Refused  int // could not be written, or are behind one that could not
	Foreign  int // records that are not letters
	Tenants  int // whose letters were replayed
	First    error
}

// ErrRefused is wrapped by Report.First when the broker refuses a letter, such
// as one that is too large with its headers.
var ErrRefused = errors.New("the broker refuses the letter")

var errLimit = errors.New("as many as wanted")

// Replay replays letters. The client must partition by hand
// (kgo.ManualPartitioner). After an error, and when ctx ends, the report says
// what was done until then, and that is marked.
func Replay(ctx context.Context, client *kgo.Client, cfg Config) (Report, error) {
	b, err := open(ctx, client, cfg.Topic)
	if err != nil {
		return Report{}, err
	}
	r := &replay{cfg: cfg, client: client, tenants: map[string]struct{}{}}
	for _, of := range b.Spans {
		if err = r.partition(ctx, b, of); err != nil {
			break
		}
	}
	r.report.Tenants = len(r.tenants)
	if errors.Is(err, errLimit) {
		err = nil
	}
	return r.report, err
}

// replay is one replay under way.
type replay struct {
	cfg     Config
	client  *kgo.Client
	report  Report
	tenants map[string]struct{} // with a letter replayed
	next    time.Time           // when the rate allows the next letter

	// of the partition under way:
	partitionID int32
	wave        []sent              // to be written at once, each of another tenant
	inWave      map[string]struct{} // its tenants
	refused     map[string]struct{} // tenants with a letter that cannot be written
	done        []int64             // replayed and not marked
	seen        map[source]struct{}
}

// sent is a letter on its way.
type sent struct {
	letter Letter
	tenant string
}

// source is what a letter is of.
type source struct {
	group string
	consumer.Place
}

// partition replays one partition of the dead-letter topic.
func (r *replay) partition(ctx context.Context, b *box, of sample.Span) (err error) {
	replayed, err := b.Marks(ctx, of, markOf)
	if err != nil {
		return err
	}
	r.partitionID, r.wave, r.done = of.Partition, r.wave[:0], r.done[:0]
	r.inWave, r.refused, r.seen = map[string]struct{}{}, map[string]struct{}{}, map[source]struct{}{}
	foreign, err := b.letters(ctx, of, func(l Letter) error { return r.visit(ctx, l, replayed.Has(l.Offset)) })
	r.report.Foreign += foreign
	if err == nil || errors.Is(err, errLimit) {
		err = errors.Join(err, r.flush(ctx))
	}
	return errors.Join(err, r.mark(ctx))
}

// visit decides about a letter.
func (r *replay) visit(ctx context.Context, l Letter, before bool) error {
	r.report.Letters++
	from := source{l.Group, l.Origin}
	_, twice := r.seen[from]
	r.seen[from] = struct{}{}
	tenant := r.cfg.TenantOf(&l)
	_, refused := r.refused[string(tenant)]
	switch {
	case !r.cfg.wants(&l):
		return nil
	case before:
		r.report.Before++
		return nil
	case twice:
		r.report.Twice++
		return nil
	case r.cfg.Moved != nil && r.cfg.Moved(&l, tenant):
		r.report.Moved++
		return nil
	case refused:
		r.report.Refused++
		return nil
	case r.cfg.Limit > 0 && r.report.Replayed+len(r.wave) >= r.cfg.Limit:
		return errLimit
	}
	return r.send(ctx, sent{l, string(tenant)})
}

// send puts a letter into the wave, behind one of the same tenant after that is
// written.
func (r *replay) send(ctx context.Context, s sent) error {
	if _, same := r.inWave[s.tenant]; same || len(r.wave) >= MarkEvery {
		if err := r.flush(ctx); err != nil {
			return err
		}
		if _, refused := r.refused[s.tenant]; refused {
			r.report.Refused++
			return nil
		}
	}
	if len(r.done)+len(r.wave) >= MarkEvery {
		if err := errors.Join(r.flush(ctx), r.mark(ctx)); err != nil {
			return err
		}
	}
	if err := r.await(ctx); err != nil {
		return err
	}
	r.wave = append(r.wave, s)
	r.inWave[s.tenant] = struct{}{}
	return nil
}

// await waits until the rate allows one more letter.
func (r *replay) await(ctx context.Context) error {
	if r.cfg.Rate <= 0 || r.cfg.DryRun {
		return ctx.Err()
	}
	now := time.Now()
	if r.next.Before(now) {
		r.next = now
	}
	wait := r.next.Sub(now)
	r.next = r.next.Add(time.Duration(float64(time.Second) / r.cfg.Rate))
	if wait == 0 {
		return ctx.Err()
	}
	if err := r.flush(ctx); err != nil { // what may go, goes
		return err
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// flush writes the wave and waits until each letter of it is acknowledged.
func (r *replay) flush(ctx context.Context) error {
	if len(r.wave) == 0 {
		return nil
	}
	wave := r.wave
	r.wave = r.wave[:0]
	clear(r.inWave)
	results := make([]error, len(wave))
	if !r.cfg.DryRun {
		results = r.write(ctx, wave)
	}
	var failed error
	for i, s := range wave {
		switch err := results[i]; {
		case err == nil:
			r.report.Replayed++
			r.tenants[s.tenant] = struct{}{}
			r.done = append(r.done, s.letter.Offset)
		case errors.Is(err, kerr.MessageTooLarge):
			r.refuse(s, err)
		case failed == nil:
			failed = fmt.Errorf("replaying the letter at %s/%d/%d to %s: %w", s.letter.Topic, s.letter.Partition, s.letter.Offset, s.letter.Origin, err)
		}
	}
	if r.cfg.Progress != nil {
		r.cfg.Progress(int64(r.report.Replayed))
	}
	return failed
}

// refuse leaves a letter, and so those of its tenant behind it.
func (r *replay) refuse(s sent, err error) {
	r.report.Refused++
	r.refused[s.tenant] = struct{}{}
	if r.report.First == nil {
		r.report.First = fmt.Errorf("%w at %s/%d/%d: %w", ErrRefused, s.letter.Topic, s.letter.Partition, s.letter.Offset, err)
	}
}

// write writes letters and returns their errors. A broker refuses a whole batch
// for its size, so those that it refuses together are written again one by one.
func (r *replay) write(ctx context.Context, wave []sent) []error {
	results := r.produce(ctx, wave)
	for i, err := range results {
		if len(wave) > 1 && errors.Is(err, kerr.MessageTooLarge) {
			results[i] = r.produce(ctx, wave[i:i+1])[0]
		}
	}
	return results
}

func (r *replay) produce(ctx context.Context, wave []sent) []error {
	records := make([]*kgo.Record, len(wave))
	index := make(map[*kgo.Record]int, len(wave))
	for i := range wave {
		records[i] = wave[i].letter.replay()
		index[records[i]] = i
	}
	results := make([]error, len(wave))
	for _, result := range r.client.ProduceSync(ctx, records...) {
		results[index[result.Record]] = result.Err
	}
	return results
}

// mark writes down what was replayed, also when ctx has ended.
func (r *replay) mark(ctx context.Context) error {
	if len(r.done) == 0 || r.cfg.DryRun {
		r.done = r.done[:0]
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), markTimeout)
	defer cancel()
	if err := r.client.ProduceSync(ctx, mark(r.cfg.Topic, r.partitionID, r.done)).FirstErr(); err != nil {
		return fmt.Errorf("marking %d letters of %s/%d as replayed, which will be replayed again: %w", len(r.done), r.cfg.Topic, r.partitionID, err)
	}
	r.done = r.done[:0]
	return nil
}
