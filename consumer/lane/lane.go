package lane

import "bytes"

// state bits of a lane; any of them keeps it from being granted.
const (
	backoff = 1 << iota
	parked
	held
	shadowed // a grant of the same lane from an earlier assignment is in hand
	revoked
	overdue // late: see late.go
)

// lane is the ordered queue of one order key in one partition. Records in
// someone's hand stay in the ring until they are done.
type lane[R any] struct {
	ent      entity // in tenant.lanes
	t        *tenant
	p        *Partition[R]
	buf      []Item[R] // ring, a power of two long
	head, n  int
	bytes    int64
	state    uint8
	over     bool   // overflowing
	vague    bool   // from is below the first skipped record, which is not known
	attempts int32  // failed attempts of the first record
	alarm    alarm  // set in back-off
	gen      uint32 // of this struct's use, for Ref
	name     uint32
	index    int // in Partition.all
	hash     uint64
	key      []byte
	short    [24]byte // the key, if it fits
	loose    *loose
	from, to int64  // first and last skipped offset, while overflowing
	full     uint64 // the pass that found no room
	gate     *Gate  // it waits there; nil: it does not
	late     *late  // nil: it never was
	waits    bool   // it had to wait for somebody when MarkLate last looked

	fed       bool // in Partition.overs
	overIndex int  // there
	gateIndex int  // in Partition.gated
}

// at returns the i-th record from the front.
func (l *lane[R]) at(i int) *Item[R] {
	return &l.buf[(l.head+i)&(len(l.buf)-1)]
}

func (l *lane[R]) push(it *Item[R], spare *rings[R]) {
	if l.n == len(l.buf) {
		l.grow(spare)
	}
	slot := &l.buf[(l.head+l.n)&(len(l.buf)-1)]
	slot.Offset, slot.Rec, slot.Bytes, slot.Cost = it.Offset, it.Rec, it.Bytes, it.Cost
	l.n++
}

func (l *lane[R]) grow(spare *rings[R]) {
	old, buf := l.buf, spare.get(grown(len(l.buf)))
	k := copy(buf, old[l.head:])
	copy(buf[k:], old[:l.head])
	l.buf, l.head = buf, 0
	clear(old)
	spare.put(old)
}

// pop drops the first record.
func (l *lane[R]) pop() {
	l.buf[l.head] = Item[R]{}
	l.head = (l.head + 1) & (len(l.buf) - 1)
	if l.n--; l.n == 0 {
		l.head = 0 // the same few slots again: they are in the processor's cache
	}
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
	l.t.parked += int32(to&parked)/parked - int32(l.state&parked)/parked
	l.t.backoff += int32(to&backoff)/backoff - int32(l.state&backoff)/backoff
	l.state = to
}

// setOver changes whether the lane overflows. relist must follow where it does.
func (l *lane[R]) setOver(over bool) {
	if l.over == over {
		return
	}
	l.over = over
	if over {
		l.t.over++
		l.p.over++
		return
	}
	l.t.over--
	l.p.over--
	l.setFed(false)
	l.ungate()
	l.endLate()
}

// setFed changes whether re-reads may feed the lane.
func (l *lane[R]) setFed(fed bool) {
	if l.fed == fed {
		return
	}
	l.fed = fed
	p := l.p
	if fed {
		l.overIndex = len(p.overs)
		p.overs = append(p.overs, l)
		return
	}
	last := len(p.overs) - 1
	p.overs[l.overIndex] = p.overs[last]
	p.overs[l.overIndex].overIndex = l.overIndex
	p.overs[last] = nil
	p.overs = p.overs[:last]
}

// refreshLane puts l into its tenant's queue or takes it out. refreshTenant
// must follow.
func (s *Scheduler[R]) refreshLane(l *lane[R]) {
	was := l.ent.place == inReady
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
	l, i := p.lanes.seek(hash, hash)
	for l != nil && string(l.key) != string(key) {
		l, i = p.lanes.seek(hash, i+1)
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
	l.key = append(l.short[:0], id.Key...)
	l.hash, l.name = hash, s.core.cfg.Name(id.Key)
	l.p, l.index = p, len(p.all)
	if id.Unordered {
		l.loose = &loose{}
	}
	if !bytes.Equal(id.Tenant, id.Key) {
		hash = s.hash(id.Tenant)
	}
	l.t = s.core.tenantOf(id.Tenant, hash, id.Tier)
	if l.t.count == 0 {
		s.core.timers.stop(&l.t.alarm) // it ran to see the bucket full
	}
	l.t.count++
	s.shadow(l)
	p.lanes.insert(l.hash, l)
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
	l := &lane[R]{}
	l.ent = entity{weight: 1, owner: l}
	return l
}

// free ends a lane that has nothing unfinished and no grant in hand.
// Its fields are left as laneOf needs them. refreshTenant and drop must follow
// for its tenant.
func (s *Scheduler[R]) free(l *lane[R]) {
	if l.state&revoked == 0 {
		l.p.unlink(l)
	} else {
		s.unshadow(l)
	}
	s.core.timers.stop(&l.alarm)
	l.setState(0)
	l.t.lanes.forget(&l.ent)
	l.t.count--
	l.gen++
	l.p, l.t, l.loose = nil, nil, nil
	l.attempts, l.bytes, l.ent.v = 0, 0, 0
	l.late, l.waits = nil, false
	if len(l.buf) > keepRing {
		s.rings.put(l.buf)
		l.buf, l.head = nil, 0
	}
	if len(s.spare) < keep {
		s.spare = append(s.spare, l)
	}
}

// unlink takes l out of the partition's index and lists.
func (p *Partition[R]) unlink(l *lane[R]) {
	p.lanes.remove(l.hash, l)
	last := len(p.all) - 1
	p.all[l.index], p.first[l.index] = p.all[last], p.first[last]
	p.all[l.index].index = l.index
	p.all[last] = nil
	p.all, p.first = p.all[:last], p.first[:last]
}
