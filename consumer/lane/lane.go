package lane

// state bits of a lane; any of them keeps it from being granted.
const (
	backoff = 1 << iota
	parked
	held
	shadowed // a grant of the same lane from an earlier assignment is in hand
	revoked
)

// lane is the ordered queue of one order key in one partition. Records in
// someone's hand stay in the ring until they are done.
type lane[R any] struct {
	ent      entity // in tenant.lanes
	t        *tenant
	p        *Partition[R]
	next     *lane[R] // of the same hash
	key      []byte
	hash     uint64
	index    int // in Partition.all
	name     uint32
	gen      uint32 // of this struct's use, for Ref
	state    uint8
	over     bool // overflowing
	loose    *loose
	attempts int32  // failed attempts of the first record
	from, to int64  // first and last skipped offset, while overflowing
	vague    bool   // from is below the first skipped record, which is not known
	full     uint64 // the pass that found no room
	timer    timer
	bytes    int64
	buf      []Item[R] // ring, a power of two long
	head, n  int
}

// at returns the i-th record from the front.
func (l *lane[R]) at(i int) *Item[R] {
	return &l.buf[(l.head+i)&(len(l.buf)-1)]
}

func (l *lane[R]) push(it Item[R]) {
	if l.n == len(l.buf) {
		l.grow()
	}
	l.buf[(l.head+l.n)&(len(l.buf)-1)] = it
	l.n++
}

func (l *lane[R]) grow() {
	buf := make([]Item[R], max(2*len(l.buf), 4))
	k := copy(buf, l.buf[l.head:])
	copy(buf[k:], l.buf[:l.head])
	l.buf, l.head = buf, 0
}

// pop drops the first record.
func (l *lane[R]) pop() {
	l.buf[l.head] = Item[R]{}
	l.head = (l.head + 1) & (len(l.buf) - 1)
	l.n--
}

func (l *lane[R]) clear() {
	clear(l.buf)
	l.head, l.n = 0, 0
}

// unfinished is the lane's first unfinished offset. Records in memory are
// below the skipped ones.
func (l *lane[R]) unfinished() int64 {
	if l.n > 0 {
		return l.at(0).Offset
	}
	return l.from
}

// grantable says that the lane has a record that may run now, but for its
// tenant's and tier's limits.
func (l *lane[R]) grantable() bool {
	if l.state != 0 || l.n == 0 {
		return false
	}
	if l.loose != nil {
		return l.looseReady()
	}
	return l.ent.running == 0 && l.at(0).Offset < l.p.limit
}

// set and unset change state bits and what the tenant counts of them.
func (l *lane[R]) set(bits uint8)   { l.setState(l.state | bits) }
func (l *lane[R]) unset(bits uint8) { l.setState(l.state &^ bits) }

func (l *lane[R]) setState(to uint8) {
	l.t.parked += int(to&parked)/parked - int(l.state&parked)/parked
	l.t.backoff += int(to&backoff)/backoff - int(l.state&backoff)/backoff
	l.state = to
}

// setOver changes whether the lane overflows.
func (l *lane[R]) setOver(over bool) {
	if l.over == over {
		return
	}
	n := 1
	if !over {
		n = -1
	}
	l.over = over
	l.p.over += n
	l.t.over += n
}

// refreshLane puts l into its tenant's queue or takes it out. refreshTenant
// must follow.
func (s *Scheduler[R]) refreshLane(l *lane[R]) {
	was := l.ent.pos >= 0
	if l.grantable() {
		l.t.lanes.enqueue(&l.ent)
		if !was {
			s.core.ready++
		}
	} else if was {
		l.t.lanes.dequeue(&l.ent)
		s.core.ready--
	}
	l.t.lanes.settle(&l.ent)
}

func (s *Scheduler[R]) find(p *Partition[R], key []byte, hash uint64) *lane[R] {
	l := p.lanes[hash]
	for l != nil && string(l.key) != string(key) {
		l = l.next
	}
	return l
}

// laneOf finds or makes a lane.
func (s *Scheduler[R]) laneOf(p *Partition[R], id *ID) *lane[R] {
	hash := s.hash(id.Key)
	if l := s.find(p, id.Key, hash); l != nil {
		return l
	}
	l := s.spareLane()
	*l = lane[R]{
		key: append(l.key[:0], id.Key...), hash: hash, gen: l.gen, buf: l.buf,
		p: p, next: p.lanes[hash], name: s.core.cfg.Name(id.Key),
		index: len(p.all), timer: timer{pos: -1, of: l},
	}
	l.ent.init(1, l)
	if id.Unordered {
		l.loose = &loose{}
	}
	l.t = s.core.tenantOf(id.Tenant, s.hash(id.Tenant), id.Tier)
	if l.t.count == 0 {
		s.core.timers.stop(&l.t.timer) // it ran to see the bucket full
	}
	l.t.count++
	s.shadow(l)
	p.lanes[hash] = l
	p.all = append(p.all, l)
	p.first = append(p.first, 0)
	return l
}

func (s *Scheduler[R]) spareLane() *lane[R] {
	if n := len(s.spare); n > 0 {
		l := s.spare[n-1]
		s.spare = s.spare[:n-1]
		return l
	}
	return &lane[R]{}
}

// keepRing is the longest ring, in records, that a freed lane takes along.
const keepRing = 128

// free ends a lane that has nothing unfinished and no grant in hand.
// refreshTenant and drop must follow for its tenant.
func (s *Scheduler[R]) free(l *lane[R]) {
	if l.state&revoked == 0 {
		l.p.unlink(l)
	} else {
		s.unshadow(l)
	}
	s.core.timers.stop(&l.timer)
	l.setState(0)
	l.t.lanes.forget(&l.ent)
	l.t.count--
	l.gen++
	l.p, l.t, l.next, l.loose = nil, nil, nil, nil
	if len(l.buf) > keepRing {
		l.buf = nil
	}
	if len(s.spare) < keep {
		s.spare = append(s.spare, l)
	}
}

// unlink takes l out of the partition's index and lists.
func (p *Partition[R]) unlink(l *lane[R]) {
	if q := p.lanes[l.hash]; q == l {
		if l.next == nil {
			delete(p.lanes, l.hash)
		} else {
			p.lanes[l.hash] = l.next
		}
	} else {
		for q.next != l {
			q = q.next
		}
		q.next = l.next
	}
	last := len(p.all) - 1
	p.all[l.index], p.first[l.index] = p.all[last], p.first[last]
	p.all[l.index].index = l.index
	p.all[last] = nil
	p.all, p.first = p.all[:last], p.first[:last]
}
