package lane

// table finds lanes and tenants by a 64-bit hash: open addressing with linear
// probing, at most three quarters full. Go's map takes twice the time for this
// and cannot hold two entries of one hash. It shrinks when it is nearly empty,
// so that a burst does not hold its memory for ever.
type table[E any] struct {
	slots []tableSlot[E]
	used  int
}

type tableSlot[E any] struct {
	hash uint64
	e    *E // nil: free
}

const (
	tableLeast = 16
	tableKeep  = 1024 // slots that are never given back
)

// seek returns the place of the first entry at or after place i that has the
// hash, and nil if there is none.
func (t *table[E]) seek(hash, i uint64) (*E, uint64) {
	if len(t.slots) == 0 {
		return nil, 0
	}
	mask := uint64(len(t.slots) - 1)
	for ; ; i++ {
		s := &t.slots[i&mask]
		if s.e == nil || s.hash == hash {
			return s.e, i
		}
	}
}

func (t *table[E]) insert(hash uint64, e *E) {
	if 4*(t.used+1) > 3*len(t.slots) {
		t.resize(max(2*len(t.slots), tableLeast))
	}
	t.used++
	t.add(hash, e)
}

func (t *table[E]) add(hash uint64, e *E) {
	mask := uint64(len(t.slots) - 1)
	i := hash & mask
	for t.slots[i].e != nil {
		i = (i + 1) & mask
	}
	t.slots[i] = tableSlot[E]{hash: hash, e: e}
}

// remove takes e out, which is in the table, and moves what follows it back
// over the hole where its own probe would otherwise end too early.
func (t *table[E]) remove(hash uint64, e *E) {
	mask := uint64(len(t.slots) - 1)
	i := hash & mask
	for t.slots[i].e != e {
		i = (i + 1) & mask
	}
	for j := (i + 1) & mask; t.slots[j].e != nil; j = (j + 1) & mask {
		if home := t.slots[j].hash & mask; (j-home)&mask >= (j-i)&mask {
			t.slots[i] = t.slots[j]
			i = j
		}
	}
	t.slots[i] = tableSlot[E]{}
	t.used--
	if len(t.slots) > tableKeep && 32*t.used < len(t.slots) {
		t.resize(len(t.slots) / 2)
	}
}

func (t *table[E]) resize(n int) {
	old := t.slots
	t.slots = make([]tableSlot[E], max(n, tableLeast))
	for _, s := range old {
		if s.e != nil {
			t.add(s.hash, s.e)
		}
	}
}

// each calls f for every entry. f must not change the table.
func (t *table[E]) each(f func(*E) bool) {
	for _, s := range t.slots {
		if s.e != nil && !f(s.e) {
			return
		}
	}
}
