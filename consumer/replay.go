package consumer

// HeaderReplay is on a record that was written again from the dead-letter
// topic, to where it first lay: the letter's place, as topic/partition/offset.
// The letter's own headers (tl-dlq-…) are still on it and say why it had
// become one, and in whose group.
const HeaderReplay = "tl-replay"

// ReplayOf says whose group a replayed record was dead-lettered by: the others
// had handled it. False: it is no replay.
func (r *Record) ReplayOf() (group string, ok bool) {
	for i := range r.Headers {
		switch r.Headers[i].Key {
		case HeaderReplay:
			ok = true
		case HeaderDeadGroup:
			group = string(r.Headers[i].Value) // the last one is the newest
		}
	}
	return group, ok
}
