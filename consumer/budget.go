package consumer

import "time"

const (
	// rereadRate is what a partition earns by time, in bytes a second.
	rereadRate = 1 << 20
	// rereadOwn is the most that a partition saves for itself.
	rereadOwn = 4 << 20
	// rereadSaved is the most that a worker saves, for each of its partitions.
	rereadSaved = 64 << 20
)

// budget is what a partition may read again beyond its tail's one time, in
// bytes. What it earns beyond its own savings goes to the worker's pot, and one
// that has nothing left draws on that: where whales meet in one partition they
// need more of it than they earn, while others need next to nothing. A
// partition's own savings are out of the others' reach.
//
//	first reads × RereadRatio ──▶ own savings ──▶ pot ──▶ partitions without savings
//	time × rereadRate ──────────▶
type budget struct {
	tokens float64       // bytes; below 0: debt
	at     time.Duration // when tokens held
}

// earn adds to what p may read again.
func (e *engine) earn(p *partition, bytes float64) {
	b := &p.rereads.budget
	b.tokens += bytes
	if over := b.tokens - rereadOwn; over > 0 {
		b.tokens = rereadOwn
		e.pot = max(min(e.pot+over, rereadSaved*float64(len(e.parts))), 0)
	}
}

// passFirst earns p what was read of it for the first time.
func (e *engine) passFirst(p *partition, bytes int) {
	if e.cfg.RereadRatio > 0 {
		e.earn(p, e.cfg.RereadRatio*float64(bytes))
	}
}

// passTime earns p the time since it was last asked for.
func (e *engine) passTime(p *partition, now time.Duration) {
	b := &p.rereads.budget
	e.earn(p, rereadRate*(now-b.at).Seconds())
	b.at = now
}

// spend takes what was read again off p's savings, and then off the pot.
func (e *engine) spend(p *partition, bytes float64) {
	b := &p.rereads.budget
	b.tokens -= bytes
	if b.tokens < 0 {
		loan := min(-b.tokens, e.pot)
		b.tokens += loan
		e.pot -= loan
	}
}

// affordable says that p may read again.
func (e *engine) affordable(p *partition) bool { return p.rereads.tokens > 0 || e.pot > 0 }
