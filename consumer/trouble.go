package consumer

import (
	"time"

	"go.uber.org/zap"
)

// maxFailing bounds how many failing records a partition remembers errors of.
const maxFailing = 256

// trouble is why a record is not done.
type trouble struct {
	text string // at most maxDeadError bytes
	at   time.Time
}

// troubles is what operators want to know of a partition's parked and failing
// records, by offset. The engine's lock guards it.
type troubles struct {
	parked  map[int64]trouble // of lanes that wait for an operator
	failing map[int64]trouble // of records that are tried again; bounded, any may be forgotten
}

// parkedFor notes why a lane was parked.
func (t *troubles) parkedFor(offset int64, why trouble) {
	delete(t.failing, offset)
	if t.parked == nil {
		t.parked = make(map[int64]trouble)
	}
	t.parked[offset] = why
}

// failedFor notes why a record is tried again.
func (t *troubles) failedFor(offset int64, why trouble) {
	if t.failing == nil {
		t.failing = make(map[int64]trouble)
	}
	if len(t.failing) >= maxFailing {
		for other := range t.failing { // a done one, most likely: nobody takes those out
			delete(t.failing, other)
			break
		}
	}
	t.failing[offset] = why
}

// over forgets a record that was resumed or skipped.
func (t *troubles) over(offset int64) {
	delete(t.parked, offset)
	delete(t.failing, offset)
}

// of is what is known of the record at an offset.
func (t *troubles) of(offset int64) trouble {
	if why, ok := t.parked[offset]; ok {
		return why
	}
	return t.failing[offset]
}

// remember notes why a record was not done. The error's text is made before
// the lock is taken: it is the application's code.
func (e *engine) remember(f *failure, note func(*troubles, int64, trouble)) {
	why := trouble{text: cut(f.err.Error(), maxDeadError), at: time.Now()}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !f.p.gone.Load() {
		note(&f.p.troubles, f.in.rec.Offset, why)
	}
}

// pauseNote is who paused a tenant, when, and why.
type pauseNote struct {
	Act
	at time.Time
}

// inheritedPause is the note of a pause that a commit's metadata told of.
func inheritedPause() pauseNote {
	return pauseNote{Act: Act{Reason: "paused before this worker had the partition"}, at: time.Now()}
}

// pauseTenant grants nothing more of a tenant.
func (e *engine) pauseTenant(tenant []byte, note pauseNote) {
	if e.pauses == nil {
		e.pauses = make(map[string]pauseNote)
	}
	if _, known := e.pauses[string(tenant)]; !known || note.Actor != "" {
		e.pauses[string(tenant)] = note
	}
	e.sched.PauseTenant(tenant)
}

// unpauseTenant undoes pauseTenant; it says whether there was a pause.
func (e *engine) unpauseTenant(tenant []byte) bool {
	_, was := e.pauses[string(tenant)]
	delete(e.pauses, string(tenant))
	e.sched.ResumeTenant(tenant)
	return was
}

// handOverPauses ends the pauses of tenants whose last lane here is in a
// partition that is taken away: the flag went with the commit, and would come
// back as one that nobody remembers. A tenant that is paused without any
// record stays so, for its pause is told nowhere else.
func (e *engine) handOverPauses(p *partition) {
	if len(e.pauses) == 0 {
		return
	}
	leaving := e.pausedIn(p)
	for _, other := range e.parts {
		if len(leaving) > 0 && other != p {
			for tenant := range e.pausedIn(other) {
				delete(leaving, tenant)
			}
		}
	}
	for tenant := range leaving {
		e.unpauseTenant([]byte(tenant))
		e.log.Info("pause handed over with its partition", zap.String("tenant", tenant),
			zap.String("topic", p.topic), zap.Int32("partition", p.id))
	}
}

// pausedIn are the paused tenants that have a lane in p.
func (e *engine) pausedIn(p *partition) map[string]struct{} {
	found := make(map[string]struct{})
	for l := range e.lanesOf(p) {
		if _, paused := e.pauses[string(l.Tenant)]; paused {
			found[string(l.Tenant)] = struct{}{}
		}
	}
	return found
}
