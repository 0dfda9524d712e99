package lane

import "time"

// maxReserved is the most that reserved shares may add up to.
const maxReserved = 0.99

// SetTier makes the tier called name, or changes its limits from now on, also
// for tenants that have work. The empty name is tier 0.
func (s *Scheduler[R]) SetTier(name string, cfg Tier, now time.Duration) TierID {
	s.Advance(now)
	return s.core.setTier(name, cfg)
}

func (c *core) setTier(name string, cfg Tier) TierID {
	id, ok := c.byName[name]
	if !ok {
		id = TierID(len(c.tiers))
		c.byName[name] = id
		tr := &tier{name: name}
		tr.ent = entity{weight: 1, owner: tr}
		c.tiers = append(c.tiers, tr)
	}
	tr := c.tiers[id]
	cfg.Reserved = min(max(cfg.Reserved, 0), maxReserved)
	if ok && tr.cfg == cfg {
		return id // a table was read again: it costs a look at every tenant to apply it
	}
	tr.cfg, tr.scale, tr.limit = cfg, quantize(cfg.Weight), limitOf(cfg.MaxConcurrency)
	tr.bucket = tr.bucket.with(cfg.Rate, cfg.Burst, c.now)
	c.timers.stop(&tr.alarm)
	c.tenants.each(func(t *tenant) bool {
		if t.tier == tr {
			c.applyTenant(t)
			c.waitForTokens(t)
		}
		return true
	})
	c.reserved = false
	for _, t := range c.tiers {
		c.reserved = c.reserved || t.cfg.Reserved > 0
	}
	c.busy = -1
	c.share()
	c.refreshTier(tr)
	return id
}

// share works the reserved shares into the weights of the tiers that are
// busy: each has its own weight, or as much as makes its reserve if that is
// more. The reserve of the others is lent.
func (c *core) share() {
	if c.busy == c.root.busy {
		return
	}
	c.busy = c.root.busy
	var sum, reserve float64 // weight of tiers above their reserve, reserve of the others
	for _, tr := range c.tiers {
		tr.raised = false
		if tr.ent.busy {
			sum += tr.scale
		}
	}
	for again := true; again; {
		again = false
		for _, tr := range c.tiers {
			if tr.ent.busy && !tr.raised && tr.cfg.Reserved > 0 &&
				tr.scale < tr.cfg.Reserved*sum/(1-min(reserve, maxReserved)) {
				tr.raised, again = true, true
				sum -= tr.scale
				reserve += tr.cfg.Reserved
			}
		}
	}
	total := sum / (1 - min(reserve, maxReserved))
	squeeze := min(1, maxReserved/max(reserve, maxReserved))
	for _, tr := range c.tiers {
		w := tr.scale
		if tr.raised {
			w = tr.cfg.Reserved * squeeze * total
		}
		c.root.setWeight(&tr.ent, quantize(w))
	}
}
