package lag

import (
	"math/bits"
	"time"
)

// window is the last n rounds of one partition: was it known, was it hot.
type window struct {
	known, hot []uint64 // rings of bits
	n, next    int
	filled     int // rounds pushed, at most n
	knownCount int
	hotCount   int
}

func newWindow(n int) window {
	n = max(n, 1)
	words := (n + 63) / 64
	bitsOf := make([]uint64, 2*words)
	return window{known: bitsOf[:words:words], hot: bitsOf[words:], n: n}
}

// push records one round. An unknown round takes a place only while at least
// half of the window stays known: beyond that the window stands still, so that
// blindness neither ages evidence away nor counts as evidence.
func (w *window) push(known, hot bool) {
	word, bit := w.next/64, uint64(1)<<(w.next%64)
	if !known {
		after := w.knownCount
		if w.known[word]&bit != 0 {
			after--
		}
		if 2*after < min(w.filled+1, w.n) {
			return
		}
	}
	w.drop(word, bit)
	if known {
		w.known[word] |= bit
		w.knownCount++
	}
	if known && hot {
		w.hot[word] |= bit
		w.hotCount++
	}
	w.filled = min(w.filled+1, w.n)
	if w.next++; w.next == w.n {
		w.next = 0
	}
}

func (w *window) drop(word int, bit uint64) {
	if w.known[word]&bit != 0 {
		w.known[word] &^= bit
		w.knownCount--
	}
	if w.hot[word]&bit != 0 {
		w.hot[word] &^= bit
		w.hotCount--
	}
}

// full is true when the window spans its whole time, with at least half known.
func (w *window) full() bool { return w.filled == w.n && 2*w.knownCount >= w.n }

// mostlyHot is true when at least 80 % of the known rounds were hot.
func (w *window) mostlyHot() bool {
	return w.hotCount > 0 && float64(w.hotCount) >= hotShare*float64(w.knownCount)
}

func (w *window) clear() {
	clear(w.known)
	clear(w.hot)
	w.next, w.filled, w.knownCount, w.hotCount = 0, 0, 0, 0
}

// count counts the bits that are set.
func (w *window) count() (known, hot int) {
	for i := range w.known {
		known += bits.OnesCount64(w.known[i])
		hot += bits.OnesCount64(w.hot[i])
	}
	return known, hot
}

// trackCap points at least 20 s apart cover more than 5 minutes.
const (
	trackCap     = 18
	trackSpacing = 20 * time.Second
)

type trackPoint struct {
	at       int64
	end, run int64
}

func (p trackPoint) lag() int64 { return max(p.end-p.run, 0) }

// track is the recent past of one partition's end and progress. The last point
// is always the newest sample.
type track struct {
	points  [trackCap]trackPoint
	next, n int
}

// push keeps the newest sample; the one before it stays only when it is far
// enough from its predecessor.
func (t *track) push(p trackPoint) {
	if t.n >= 2 && millis(t.back(0).at-t.back(1).at) < trackSpacing {
		t.points[t.index(0)] = p
		return
	}
	t.append(p)
}

func (t *track) append(p trackPoint) {
	t.points[t.next] = p
	t.next = (t.next + 1) % trackCap
	t.n = min(t.n+1, trackCap)
}

func (t *track) index(back int) int { return (t.next - 1 - back + 2*trackCap) % trackCap }

func (t *track) back(i int) trackPoint { return t.points[t.index(i)] }

// since returns the newest point at least span old, and false when the track
// is shorter than span. (Points 20 s apart: the span is met within that.)
func (t *track) since(span time.Duration) (trackPoint, bool) {
	now := t.back(0).at
	for i := 1; i < t.n; i++ {
		if p := t.back(i); millis(now-p.at) >= span {
			return p, true
		}
	}
	return trackPoint{}, false
}

// rates returns records per second in and out over the last 2 minutes, or what
// is there of them.
func (t *track) rates() (in, out float64) {
	if t.n < 2 {
		return 0, 0
	}
	p, ok := t.since(slopeSpan)
	if !ok {
		p = t.back(t.n - 1)
	}
	now := t.back(0)
	s := millis(now.at - p.at).Seconds()
	if s <= 0 {
		return 0, 0
	}
	return float64(now.end-p.end) / s, float64(now.run-p.run) / s
}

func (t *track) clear() { t.next, t.n = 0, 0 }

// gapSpan is half of the memory of the longest time between commits.
const gapSpan = 30 * time.Minute

// gaps remembers the longest time that committable work waited for a commit,
// over the last 30 to 60 minutes.
type gaps struct {
	this, last int64 // milliseconds
	turnedAt   int64
}

func (g *gaps) add(now, ms int64) {
	g.turn(now)
	g.this = max(g.this, ms)
}

func (g *gaps) turn(now int64) {
	switch age := millis(now - g.turnedAt); {
	case age >= 2*gapSpan:
		g.this, g.last, g.turnedAt = 0, 0, now
	case age >= gapSpan:
		g.this, g.last, g.turnedAt = 0, g.this, now
	}
}

func (g *gaps) longest() time.Duration { return millis(max(g.this, g.last)) }

// budget sums a duration over a sliding span in equal buckets.
type budget struct {
	buckets [24]uint32 // milliseconds
	at      int64      // number of the newest bucket
}

func (b *budget) add(now int64, span, d time.Duration) {
	b.turn(now, span)
	b.buckets[b.at%int64(len(b.buckets))] += uint32(d.Milliseconds())
}

func (b *budget) turn(now int64, span time.Duration) {
	size := span.Milliseconds() / int64(len(b.buckets))
	at := now / size
	for n := min(at-b.at, int64(len(b.buckets))); n > 0; n-- {
		b.buckets[(at-n+1)%int64(len(b.buckets))] = 0
	}
	b.at = max(b.at, at)
}

func (b *budget) sum() time.Duration {
	var ms int64
	for _, v := range b.buckets {
		ms += int64(v)
	}
	return millis(ms)
}

// condition is one alert of one partition or pool over time. It is inactive
// while since is 0.
type condition struct {
	since   int64 // when what fires began
	cleared int64 // milliseconds of known time since it cleared
}

func (c *condition) firing() bool { return c.since != 0 }

// fire starts it, unless it fires already.
func (c *condition) fire(since int64) {
	if c.since == 0 {
		c.since = since
	}
	c.cleared = 0
}

// settle advances a firing condition by dt of known time: a clear that holds
// for keep ends it, anything else starts the wait anew.
func (c *condition) settle(over bool, dt int64, keep time.Duration) {
	if c.since == 0 {
		return
	}
	if !over {
		c.cleared = 0
		return
	}
	c.cleared += dt
	if millis(c.cleared) >= keep {
		*c = condition{}
	}
}

// step is fire and settle for a condition that is simply there or not.
func (c *condition) step(on bool, now, dt int64, keep time.Duration) {
	if on {
		c.fire(now)
		return
	}
	c.settle(true, dt, keep)
}
