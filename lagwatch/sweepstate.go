package lagwatch

import (
	"maps"
	"time"
)

// savedSweep is what sweeps and moves must not forget over a restart: findings
// would end and begin anew, and a week would never pass.
type savedSweep struct {
	Findings    []finding             `json:"findings,omitempty"`
	Looks       map[string]StaleLook  `json:"looks,omitempty"`
	Quarantined map[string]int64      `json:"quarantined,omitempty"`
	PlacedSince map[string]time.Time  `json:"placed_since,omitempty"`
	RoutedSince map[string]tableSince `json:"routed_since,omitempty"`
	ParkedSince []savedParked         `json:"parked_since,omitempty"`
	Moves       map[string]moveTimes  `json:"moves,omitempty"`
}

type savedParked struct {
	Group string    `json:"group"`
	Topic string    `json:"topic"`
	Since time.Time `json:"since"`
}

func (e *engine) savedSweep() savedSweep {
	s := savedSweep{
		Findings: e.openFindings(), Looks: maps.Clone(e.looks), Quarantined: maps.Clone(e.quarantined),
		PlacedSince: maps.Clone(e.placedSince), RoutedSince: maps.Clone(e.routedSince), Moves: maps.Clone(e.moves),
	}
	for key, since := range e.parkedSince {
		s.ParkedSince = append(s.ParkedSince, savedParked{key.group, key.topic, since})
	}
	return s
}

func (e *engine) restoreSweep(s *savedSweep) {
	for _, f := range s.Findings {
		e.findings[f.key()] = f
	}
	maps.Copy(e.looks, s.Looks)
	maps.Copy(e.quarantined, s.Quarantined)
	maps.Copy(e.placedSince, s.PlacedSince)
	maps.Copy(e.routedSince, s.RoutedSince)
	maps.Copy(e.moves, s.Moves)
	for _, p := range s.ParkedSince {
		e.parkedSince[pairKey{p.Group, p.Topic}] = p.Since
	}
}
