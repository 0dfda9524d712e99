package offset

import (
	"cmp"
	"slices"
	"sort"
)

// Match is what a re-read record means to the inherited names.
type Match uint8

const (
	// NoMatch: nothing.
	NoMatch Match = iota
	// Exact: it is the record that a lane was named for: its key is the lane,
	// which takes over the name's flags.
	Exact
	// Possible: a lane was named for no known record, or that record is gone,
	// and this one's key may be that lane: it is to be delivered, without flags.
	Possible
	// Wrong: another lane's record is where a named one should be. The
	// checkpoint is of another log: discard it and rewind to the watermark.
	Wrong
)

// String is the match in a word.
func (m Match) String() string { return [...]string{"none", "exact", "possible", "wrong"}[m] }

// inherited are the names of a checkpoint that are not resolved yet, ascending
// by offset.
type inherited struct {
	lanes []Lane
	count map[uint32]int // of lanes by name
	end   int64          // the inherited frontier
}

func newInherited(lanes []Lane, end int64) inherited {
	in := inherited{end: end, count: make(map[uint32]int, len(lanes))}
	in.lanes = slices.Clone(lanes)
	for _, l := range lanes {
		in.count[l.Name]++
	}
	return in
}

func (in *inherited) left() int { return len(in.lanes) }

func (in *inherited) appendTo(dst []Lane) []Lane {
	return append(dst, in.lanes...)
}

// Recovering says that inherited names are left: until then the main cursor
// asks Claim about each record, and re-reads ask Judge.
func (t *Tracker) Recovering() bool { return len(t.names.lanes) > 0 }

// FirstName is the lowest offset that an inherited name waits for: a re-read
// begins there or below. False: none is left.
func (t *Tracker) FirstName() (offset int64, ok bool) {
	if len(t.names.lanes) == 0 {
		return 0, false
	}
	return t.names.lanes[0].Offset, true
}

// InheritedFrontier is where the records end that inherited names are about.
func (t *Tracker) InheritedFrontier() int64 { return t.floor }

// Claim says whether the main cursor's record of a lane with this name must
// wait because the lane may be an inherited one, and from which offset on its
// records are not known to be done.
func (t *Tracker) Claim(name uint32) (from int64, ok bool) {
	if t.names.count[name] == 0 {
		return 0, false
	}
	for _, v := range t.names.lanes {
		if v.Name == name {
			return v.Offset, true
		}
	}
	return 0, false
}

// Judge says what the record that a re-read brings at an offset, of a lane of
// this name, means to the inherited names. at is where the re-read's current
// chunk begins. An Exact name is resolved: the caller makes the lane with the
// unfinished offset from here on and the lane's flags, before the next
// snapshot.
func (t *Tracker) Judge(at, offset int64, name uint32) (Lane, Match) {
	in := &t.names
	if len(in.lanes) == 0 || offset >= in.end {
		return Lane{}, NoMatch
	}
	reached := in.reached(at, name)
	i := sort.Search(len(in.lanes), func(i int) bool { return in.lanes[i].Offset >= offset })
	wrong := false
	for ; i < len(in.lanes) && in.lanes[i].Offset == offset; i++ {
		v := in.lanes[i]
		if v.AtLeast {
			continue
		}
		switch {
		case v.Name != name:
			wrong = true
		case reached:
			in.remove(i)
			return v, Exact
		default:
			return Lane{}, NoMatch
		}
	}
	if wrong {
		return Lane{}, Wrong
	}
	if !reached {
		return Lane{}, NoMatch
	}
	return in.possible(offset, name)
}

// reached says that a re-read whose chunk begins at an offset has not begun
// above what a lane of this name may need first. Several names may be equal,
// be it by chance or because a lane was claimed by the main cursor, and then
// may stand for one lane.
func (in *inherited) reached(at int64, name uint32) bool {
	if in.count[name] == 0 {
		return false
	}
	for _, v := range in.lanes {
		if v.Name == name {
			return v.Offset >= at
		}
	}
	return false
}

// possible looks for a name that waits below the offset: one whose own record
// did not come before this one is known to be gone.
func (in *inherited) possible(offset int64, name uint32) (Lane, Match) {
	for _, v := range in.lanes {
		if v.Name == name && v.Offset <= offset {
			return Lane{Name: name, Offset: v.Offset}, Possible
		}
	}
	return Lane{}, NoMatch
}

// Passed notes that a re-read has offered every record in [from, next). Names
// whose record was not there wait for what follows, up to the inherited
// frontier. It returns how many records were gone.
func (t *Tracker) Passed(from, next int64) int { return t.names.moveUp(from, next) }

// moveUp moves names in [from, next) to next.
func (in *inherited) moveUp(from, next int64) int {
	gone := 0
	for i := len(in.lanes) - 1; i >= 0; i-- { // from above: reached looks at those below
		v := &in.lanes[i]
		if v.Offset < from || v.Offset >= next || in.count[v.Name] > 1 && !in.reached(from, v.Name) {
			continue
		}
		if !v.AtLeast {
			gone++
		}
		*v = Lane{Name: v.Name, Offset: next, AtLeast: true}
	}
	in.lanes = slices.DeleteFunc(in.lanes, func(v Lane) bool {
		if v.Offset < in.end {
			return false
		}
		in.uncount(v.Name)
		return true
	})
	slices.SortStableFunc(in.lanes, func(a, b Lane) int { return cmp.Compare(a.Offset, b.Offset) })
	return gone
}

func (in *inherited) remove(i int) {
	in.uncount(in.lanes[i].Name)
	in.lanes = slices.Delete(in.lanes, i, i+1)
}

func (in *inherited) uncount(name uint32) {
	if in.count[name]--; in.count[name] == 0 {
		delete(in.count, name)
	}
}
