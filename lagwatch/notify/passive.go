package notify

import "time"

// assume books what another replica is trusted to deliver; mu is held.
func (s *sender) assume(now time.Time, firing map[string]Alert) {
	s.firing = firing
	due := s.told.due(now, firing, 0)
	for _, a := range due {
		if !a.ResolvedAt.IsZero() {
			s.ended[a.Key()] = Entry{a, now, account(s.target)}
		} else {
			delete(s.ended, a.Key())
		}
	}
	s.told.told(now, account(s.target), due)
}

// Known says what the replica before told a target of an alert that began, or
// ended, at that time: the severity with which it is open there, empty when it
// is not. Sure is false when nobody knows.
type Known func(target, key string, since time.Time, ended bool) (severity string, sure bool)

// takeOver makes a passive sender send. What began or ended within the doubt
// may not have been delivered by the replica before, and unless that is known
// it is due again: the other side recognizes it by its dedup key, or gets it
// twice.
func (s *sender) takeOver(now time.Time, doubt time.Duration, known Known) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.passive {
		return
	}
	s.passive = false
	for key, e := range s.told {
		if now.Sub(e.SentAt) >= doubt {
			continue
		}
		severity, sure := known(s.target.Name(), key, e.SentAt, false)
		if !sure || severity == "" {
			delete(s.told, key)
			continue
		}
		e.Alert.Severity = severity
		s.told[key] = e
	}
	for key, e := range s.ended {
		if _, open := s.told[key]; open || now.Sub(e.SentAt) >= doubt {
			continue
		}
		if severity, sure := known(s.target.Name(), key, e.SentAt, true); !sure || severity != "" {
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
// ended within the doubt is delivered again, unless it is known what the replica
// before has told: give it the time in which a dead replica is not noticed, and
// nil when nothing is known. A new Notifier is active.
func (n *Notifier) SetActive(active bool, doubt time.Duration, known Known) {
	if known == nil {
		known = func(string, string, time.Time, bool) (string, bool) { return "", false }
	}
	now := time.Now()
	for _, s := range n.senders {
		if active {
			s.takeOver(now, doubt, known)
		} else {
			s.giveUp()
		}
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}
