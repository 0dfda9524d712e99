package move

// encode writes a state down, producers and workers renamed.
func (m *model) encode(w *world, b []byte, name [maxProds]uint8) []byte {
	for _, e := range w.routing[:w.entries] {
		who := e.who
		if e.kind == ofSession {
			who = name[who]
		}
		b = append(b, byte(e.kind)<<4|byte(e.status), who, byte(e.to)<<4|byte(e.home), byte(e.x), bit(e.over)|bit(e.forget)<<1)
	}
	b = append(b, 255)
	for i := range w.logs[:m.scope.partitions] {
		log := &w.logs[i]
		b = append(b, byte(log.start), byte(log.end))
		for _, r := range log.at[:log.end] {
			who := r.who
			if r.kind == aRecord {
				who = name[who]
			}
			b = append(b, byte(r.kind)<<4|who<<2|r.seq, r.epoch<<1|bit(r.aside))
		}
	}
	for i := range w.prods[:m.scope.producers] {
		b = m.encodeProducer(b, &w.prods[name[i]], &w.handled[name[i]]) // its own inverse
	}
	for i := range w.coords {
		b = encodeCoordinator(b, &w.coords[i], name)
	}
	b = m.encodeParts(b, w)
	f := w.faults
	return append(b, byte(f.expire)<<4|byte(f.crashProducer), byte(f.crashWorker)<<4|byte(f.crashCoordinator),
		bit(w.begun), byte(f.fail)<<4|byte(f.lose), byte(f.abort)<<4|byte(f.giveUp), byte(f.move)<<4|byte(f.truncate))
}

func bit(on bool) byte {
	if on {
		return 1
	}
	return 0
}

func (m *model) encodeProducer(b []byte, p *producer, handled *[maxRecords]place) []byte {
	g := &p.gate
	term := byte(0)
	if g.inFlight > 0 {
		term = byte(g.term)
	}
	b = append(b, byte(p.life)|bit(p.registering)<<2|bit(p.leased)<<3|bit(p.doubt)<<4,
		byte(p.at), byte(p.registered), p.generation, p.next, p.told,
		byte(g.inFlight)|byte(g.late)<<2|bit(g.moving)<<4|bit(g.trailing)<<5, term)
	for i, r := range p.records[:m.scope.records] {
		b = append(b, byte(r.state)<<4|byte(r.home), byte(r.offset), r.epoch<<4|r.generation,
			byte(handled[i].partition)<<4|byte(handled[i].offset))
	}
	return b
}

func encodeCoordinator(b []byte, c *coordinator, name [maxProds]uint8) []byte {
	k := &c.course
	b = append(b, byte(c.life)|bit(c.captured)<<2|bit(c.over)<<3, byte(k.phase)|bit(k.look)<<3|byte(k.outcome)<<4)
	for _, f := range k.fences {
		b = append(b, byte(f.Offset))
	}
	waiting := byte(0)
	for _, id := range c.drain.waiting {
		waiting |= 1 << name[id[0]-1]
	}
	return append(b, 0xf0|waiting)
}

func (m *model) encodeParts(b []byte, w *world) []byte {
	// The worker that owns the first owned partition is called the first.
	swap := false
	for i := range w.parts[:m.scope.partitions] {
		if o := w.parts[i].owner; o > 0 {
			swap = o == 2
			break
		}
	}
	views := w.views
	if swap {
		views[0], views[1] = views[1], views[0]
	}
	b = append(b, byte(views[0]), byte(views[1]))
	for i := range w.parts[:m.scope.partitions] {
		p := &w.parts[i]
		owner := p.owner
		if swap && owner > 0 {
			owner = 3 - owner
		}
		b = append(b, byte(owner)<<4|bit(p.commit.named), byte(p.head), byte(p.cursor), byte(p.beside),
			byte(p.commit.watermark), byte(p.commit.frontier), byte(p.commit.name), byte(p.believed.partition)<<4|byte(p.believed.offset))
		for _, h := range p.holds.holds {
			b = append(b, h.move[0], byte(h.offset), bit(h.ask > 0))
		}
		b = append(b, 254)
	}
	return b
}
