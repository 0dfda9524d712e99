package notify

import "time"

// assume books what another replica is trusted to deliver; mu is held.
func (s *sender) assume(now time.Time, firing map[string]Alert) {
	s.firing = firing
	due := s.told.due(now, firing, 0)
	for _, a := range due {
		if !a.ResolvedAt.IsZero() {
			s.ended[a.Key()] = Entry{a, now}
		} else {
			delete(s.ended, a.Key())
		}
	}
	s.told.told(now, due)
}

// takeOver makes a passive sender send. What began or ended within the doubt
// may not have been delivered by the replica before, and is due again: the
// other side recognizes it by its dedup key, or gets it twice.
func (s *sender) takeOver(now time.Time, doubt time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.passive {
		return
	}
	s.passive = false
	for key, e := range s.told {
		if now.Sub(e.SentAt) < doubt {
			delete(s.told, key)
		}
	}
	for key, e := range s.ended {
		if _, open := s.told[key]; !open && now.Sub(e.SentAt) < doubt {
			e.Alert.ResolvedAt = time.Time{}
			s.told[key] = e
		}
	}
	clear(s.ended)
}

// giveUp makes a sender passive.
func (s *sender) giveUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.passive = true
	s.rest()
}

// SetActive says whether this replica sends. A passive one follows what is
// published as if the active one delivered it. On taking over, what began or
// ended within the doubt is delivered again: give it the time in which a dead
// replica is not noticed. A new Notifier is active.
func (n *Notifier) SetActive(active bool, doubt time.Duration) {
	now := time.Now()
	for _, s := range n.senders {
		if active {
			s.takeOver(now, doubt)
		} else {
			s.giveUp()
		}
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}
