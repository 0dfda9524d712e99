package rebalance

import (
	"cmp"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// share is a partition to be assigned.
type share struct {
	topic     string
	partition int32
	volume    float64
}

// seat is a member and what it gets.
type seat struct {
	member *kmsg.JoinGroupResponseMember
	topics []string           // that it consumes
	owned  map[string][]int32 // before
	has    []share
	load   float64
}

func (s *seat) wants(topic string) bool { return slices.Contains(s.topics, topic) }

// level gives shares to seats that want them: to who owned it, else to who has
// the least load, the heaviest first. Then it moves shares for as long as that
// makes two seats more level. What no seat wants is left out.
//
// In the end no seat that wants a share has less than its owner by more than
// the share's weight: every move makes the sum of the loads' squares smaller.
func level(seats []*seat, shares []share, weight func(share) float64) {
	given := make(map[*seat][]share)
	give := func(to *seat, s share) {
		given[to] = append(given[to], s)
		to.load += weight(s)
	}
	var free []share
	for _, s := range shares {
		if owner := ownerOf(seats, s); owner != nil {
			give(owner, s)
		} else {
			free = append(free, s)
		}
	}
	slices.SortStableFunc(free, func(a, b share) int { return cmp.Compare(weight(b), weight(a)) })
	for _, s := range free {
		if to := lightest(seats, s.topic); to != nil {
			give(to, s)
		}
	}
	for improve(seats, given, weight) {
		continue
	}
	for _, s := range seats {
		s.has = append(s.has, given[s]...)
	}
}

func ownerOf(seats []*seat, s share) *seat {
	for _, m := range seats {
		if m.wants(s.topic) && slices.Contains(m.owned[s.topic], s.partition) {
			return m
		}
	}
	return nil
}

func lightest(seats []*seat, topic string) *seat {
	var best *seat
	for _, m := range seats {
		if m.wants(topic) && (best == nil || m.load < best.load) {
			best = m
		}
	}
	return best
}

// improve makes the move that levels the heaviest seat most, or the next
// heaviest. False: none levels anything.
func improve(seats []*seat, given map[*seat][]share, weight func(share) float64) bool {
	order := slices.Clone(seats)
	slices.SortStableFunc(order, func(a, b *seat) int { return cmp.Compare(b.load, a.load) })
	for _, from := range order {
		best, gain := -1, 0.0
		var to *seat
		for i, s := range given[from] {
			m := lightest(seats, s.topic)
			w := weight(s)
			// The sum of squares shrinks by 2w(from−to−w). The tolerance
			// keeps rounding from moving shares to and fro.
			if g := w * (from.load - m.load - w); m != from && g > max(gain, 1e-9*w) {
				best, gain, to = i, g, m
			}
		}
		if best >= 0 {
			s := given[from][best]
			given[from] = slices.Delete(given[from], best, best+1)
			given[to] = append(given[to], s)
			from.load -= weight(s)
			to.load += weight(s)
			return true
		}
	}
	return false
}
