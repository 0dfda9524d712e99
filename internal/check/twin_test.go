package check

import (
	"slices"

	"github.com/tenantlane/tenantlane/consumer/offset"
)

// naive judges a history by the definitions in doc.go, looking at everything
// that came before each handling. It shares no code with the Checker.
func naive(steps []step) Report {
	var r Report
	type record struct {
		ID
		seq uint64
	}
	tenants, acknowledged, done := map[string]bool{}, map[record]bool{}, map[record]bool{}
	for i, s := range steps {
		rec := record{s.h.ID, s.h.Seq}
		switch s.kind {
		case KindProduced:
			tenants[s.h.Tenant], acknowledged[rec] = true, true
		case KindHandled:
			tenants[s.h.Tenant] = true
			first := !done[rec]
			done[rec] = true
			below := naiveDone(steps[:i], s.h)
			switch {
			case first && below:
				r.EarlyCommits++
			case !first:
				r.Duplicates++
				if !below {
					r.DuplicatesAllowed++
				}
			}
			if first && naiveHighest(steps[:i], s.h.ID) > s.h.Seq || !naiveAscends(steps[:i+1], s.h) {
				r.OrderViolations++
			}
		}
	}
	r.Tenants, r.Produced, r.Handled = len(tenants), uint64(len(acknowledged)), uint64(len(done))
	for rec := range acknowledged {
		if !done[rec] {
			r.Lost++
		}
	}
	for rec := range done {
		if !acknowledged[rec] {
			r.Unacknowledged++
		}
	}
	return r
}

func naiveHighest(before []step, id ID) (highest uint64) {
	for _, s := range before {
		if s.kind == KindHandled && s.h.ID == id {
			highest = max(highest, s.h.Seq)
		}
	}
	return highest
}

// naiveDone asks the highest commit of the partition before its assignment to the
// process began, or by that process while the assignment was its newest. Of
// those before a process that does not go by names only the offset counts.
func naiveDone(before []step, h Handling) bool {
	mine := func(s step) bool {
		return (s.kind == KindHandled || s.kind == KindAssigned) &&
			s.h.Process == h.Process && s.h.Partition == h.Partition
	}
	begins := map[uint64]int{} // assignment to its first step
	newest, order := -1, []uint64{}
	for i, s := range before {
		if mine(s) && (len(order) == 0 || s.h.Assignment > order[len(order)-1]) {
			begins[s.h.Assignment], newest = i, i
			order = append(order, s.h.Assignment)
		}
	}
	begin, end := len(before), len(before)
	if at, ok := begins[h.Assignment]; ok {
		begin = at
		if at != newest {
			later := order[slices.Index(order, h.Assignment)+1:]
			if len(later) > 1 {
				return false
			}
			end = begins[later[0]]
		}
	} else if newest >= 0 && h.Assignment < order[len(order)-1] {
		return false
	}
	named := begin < len(before) && before[begin].kind == KindAssigned && before[begin].named
	var said Commit
	for i, s := range before {
		if s.kind != KindCommit || s.h.Partition != h.Partition || s.said.Offset < said.Offset {
			continue
		}
		switch {
		case i < begin && named, i >= begin && s.h.Process == h.Process && i < end:
			said = s.said
		case i < begin:
			said = Commit{Offset: s.said.Offset}
		}
	}
	if h.Offset < said.Offset || h.Offset >= said.Frontier {
		return h.Offset < said.Offset
	}
	return !slices.ContainsFunc(said.Lanes, func(l Lane) bool {
		return l.Offset <= h.Offset && (l.Name == offset.Name([]byte(h.Tenant)) || !naiveKnown(before, h, l.Name))
	})
}

// naiveKnown says that a name is a tenant's that was heard of.
func naiveKnown(before []step, h Handling, name uint32) bool {
	return name == offset.Name([]byte(h.Tenant)) || slices.ContainsFunc(before, func(s step) bool {
		return (s.kind == KindHandled || s.kind == KindProduced) && offset.Name([]byte(s.h.Tenant)) == name
	})
}

// naiveAscends cuts what the process handled of the ID into ascending runs
// and asks whether the last run, if it has just begun, was allowed to begin.
func naiveAscends(until []step, h Handling) bool {
	var runs [][]Handling
	for _, s := range until {
		if s.kind != KindHandled || s.h.ID != h.ID || s.h.Process != h.Process {
			continue
		}
		if n := len(runs); n > 0 {
			last := runs[n-1][len(runs[n-1])-1]
			same := s.h.Assignment == 0 || last.Assignment == s.h.Assignment && last.Partition == s.h.Partition
			if same && s.h.Seq > last.Seq {
				runs[n-1] = append(runs[n-1], s.h)
				continue
			}
		}
		runs = append(runs, []Handling{s.h})
	}
	n := len(runs)
	if n < 2 || len(runs[n-1]) > 1 {
		return true
	}
	last := runs[n-2][len(runs[n-2])-1]
	if h.Assignment != 0 {
		return last.Assignment != h.Assignment || last.Partition != h.Partition
	}
	var reached uint64 // by the runs before the one that was cut off
	for _, run := range runs[:n-2] {
		reached = max(reached, run[len(run)-1].Seq)
	}
	return last.Seq >= reached
}
