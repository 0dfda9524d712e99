package consumer

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/consumer/lane"
	"github.com/tenantlane/tenantlane/consumer/refetch"
)

// surrender is records of late lanes on their way to the dead-letter topic. One
// at a time of a partition is under way: its letters are written in the log's
// order, and count as done once all of them are acknowledged.
//
//	MarkLate ─▶ in hand? wait ─▶ memory dropped ─▶ read again ─▶ letters ─▶ acknowledged
//	              (nothing more is granted)            ▲                         │
//	                                                   └── still late ◀──────────┤
//	                                                        goes on ◀────────────┘
type surrender struct {
	p       *partition
	pass    lane.Pass[entry]
	next    int64 // records of late lanes below are taken
	bytes   int64 // of the chunk that the letters pin
	letters []*kgo.Record
	// guarded by engine.mu:
	answers int     // that are missing
	failed  []bool  // of letters
	err     error   // of one that failed
	tries   int     // failed rounds
	scratch []byte  // for classifying
	job     failure // what the clock writes again
}

// tooFar says in a dead letter why it is one.
type tooFar struct{ distance, limit int64 }

func (e *tooFar) Error() string {
	return fmt.Sprintf("not handled: %d offsets behind the partition's cursor, and a lane may be %d (max distance)", e.distance, e.limit)
}

// planLate looks for late lanes of p, and for records of them to give up. later
// says that there are some that have to wait.
func (e *engine) planLate(p *partition) (j *job, later bool) {
	if e.cfg.TooFar != TooFarDeadLetter || p.progress == nil || p.rereads.surrender != nil || e.draining > 0 || e.stopping {
		return nil, false
	}
	cursor := p.progress.Next()
	for _, l := range e.sched.MarkLate(p.lanes, cursor, p.rereads.base, e.cfg.MaxDistance, nil) {
		e.metrics.late.WithLabelValues(p.topic).Inc()
		e.log.Warn("lane is too far behind: its records go to the dead-letter topic until it is not",
			zap.String("topic", p.topic), zap.Int32("partition", p.id), zap.ByteString("tenant", l.Tenant),
			zap.Int64("offset", l.First), zap.Int64("until", l.Until), zap.Int64("cursor", cursor))
	}
	from, ok := e.sched.LateFrom(p.lanes, func(it *laneItem) { e.hold(p, -it.Rec.in.freed(it)) })
	if !ok || !e.affordable(p) {
		return nil, p.lanes.Late() > 0
	}
	p.rereads.surrender = &surrender{p: p, pass: e.sched.BeginLate(p.lanes, from), next: from}
	return &job{p: p, from: from, late: p.rereads.surrender}, false
}

// giveUp takes what late lanes wait for of a chunk, and writes it to the
// dead-letter topic.
func (e *engine) giveUp(s *surrender, c *refetch.Chunk) {
	rt := (*e.routes.Load())[s.p.topic]
	for e.takeLate(s, rt, c) {
		continue
	}
	e.mu.Lock()
	p := s.p
	p.rereads.running = false
	if p.gone.Load() {
		e.mu.Unlock()
		return
	}
	e.metrics.reread.Add(float64(c.Bytes))
	e.spend(p, float64(c.Bytes))
	if len(s.letters) == 0 {
		if s.next <= s.pass.At() {
			p.rereads.after = e.now() + rereadPause // it is not there yet
		}
		e.surrendered(s)
		e.mu.Unlock()
		return
	}
	s.bytes = int64(c.Bytes)
	e.hold(p, s.bytes)
	s.job = failure{p: p, late: s}
	s.failed = make([]bool, len(s.letters))
	for i := range s.failed {
		s.failed[i] = true // not written yet
	}
	e.signalHungry() // others have to be read for meanwhile
	e.mu.Unlock()
	e.writeLate(s)
}

// takeLate looks at the next few records of a chunk under one lock. It says
// whether there are more.
func (e *engine) takeLate(s *surrender, rt *route, c *refetch.Chunk) bool {
	records, to := nextPart(c, s.next)
	e.mu.Lock()
	defer e.mu.Unlock()
	p := s.p
	if p.gone.Load() {
		return false
	}
	cursor := p.progress.Next()
	to = min(to, cursor)
	if c.AtEnd && c.End >= cursor {
		to = cursor // nothing is left of what the cursor passed here
	}
	var cl classified
	for _, r := range records {
		if r.Offset >= to {
			break
		}
		s.scratch = rt.classify(&cl, r, p.rule, s.scratch[:0])
		if cl.class > classNoTenant || !e.sched.TakeLate(&s.pass, &cl.id, r.Offset) {
			continue
		}
		if e.spared(p, &cl) {
			e.sched.SpareLate(&s.pass, &cl.id, r.Offset)
			continue
		}
		why := &tooFar{distance: cursor - r.Offset, limit: e.cfg.MaxDistance}
		s.letters = append(s.letters, deadLetter(r, e.cfg.DeadLetterTopic(r.Topic), e.cfg.Group, 0, why))
	}
	more := to > s.next && to < min(c.Next, cursor)
	s.next = max(s.next, to)
	return more
}

// spared says that a move has to judge the record: it waits at a fence, or is
// stale. Its lane goes on with it as if it were not late.
func (e *engine) spared(p *partition, c *classified) bool {
	if c.class != classLane || !p.watched && c.epoch <= p.known {
		return false
	}
	wait, f, _ := e.ruleOn(p, c)
	return wait != nil || f != nil
}

// writeLate writes the letters that are not written. Where one fails the client
// fails those behind it in its partition too, so that order holds when they are
// written again, together.
func (e *engine) writeLate(s *surrender) {
	var todo []int
	e.mu.Lock()
	for i, failed := range s.failed {
		if failed {
			todo = append(todo, i)
		}
	}
	s.answers, s.err = len(todo), nil
	e.mu.Unlock()
	for _, i := range todo {
		e.letters(s.letters[i], func(err error) { e.writtenLate(s, i, err) })
	}
}

// writtenLate notes one answer. After the last one it ends the surrender, or
// has the clock write again what failed.
func (e *engine) writtenLate(s *surrender, i int, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s.failed[i] = err != nil
	if err != nil {
		s.err = err
	}
	if s.answers--; s.answers > 0 || s.p.gone.Load() {
		return // of a partition that was taken away: whoever has it now repeats it
	}
	if s.err == nil {
		e.hold(s.p, -s.bytes)
		e.surrendered(s)
		return
	}
	s.tries++
	due := e.now() + e.cfg.Retry.backoff(s.tries)
	e.metrics.deadErrs.WithLabelValues(s.p.topic).Inc()
	e.log.Error("writing dead letters of late lanes", zap.String("topic", s.p.topic), zap.Int32("partition", s.p.id),
		zap.Int64("offset", s.pass.At()), zap.Int("letters", len(s.letters)), zap.Error(s.err))
	e.failed = append(e.failed, failedLetter{&s.job, due})
	e.rearmAt(due)
}

// surrendered lets the lanes go on behind what is written.
func (e *engine) surrendered(s *surrender) {
	p, n := s.p, len(s.letters)
	p.rereads.surrender = nil
	from := s.pass.At()
	on := e.sched.PassedLate(&s.pass, s.next)
	if n > 0 {
		p.handled += uint64(n)
		e.metrics.deadLetters.WithLabelValues(p.topic).Add(float64(n))
		e.metrics.lateLetters.WithLabelValues(p.topic).Add(float64(n))
		e.sampled.Warn("records of late lanes dead-lettered", zap.String("topic", p.topic), zap.Int32("partition", p.id),
			zap.Int64("offset", from), zap.Int64("until", s.next), zap.Int("records", n))
	}
	if on > 0 {
		e.log.Info("lanes that were too far behind go on", zap.String("topic", p.topic), zap.Int32("partition", p.id), zap.Int("lanes", on))
	}
	if len(p.leaves) > 0 {
		e.moves.kick()
	}
	e.skipped(p)
	e.wakeOne()
	e.signalChanged()
}
