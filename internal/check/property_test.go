package check

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tenantlane/tenantlane/consumer/offset"
)

// TestCorrectHistoriesAreClean: workers that keep the promise are never
// accused, whatever crashes they had.
func TestCorrectHistoriesAreClean(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		steps := promise(t, rapid.Bool().Draw(t, "numbered"))
		r := replay(steps)
		if !r.OK() || r.Unacknowledged != 0 || r.Handled != r.Produced {
			t.Fatalf("%+v", r)
		}
		if diff := cmp.Diff(naive(steps), r, ignoreWorst); diff != "" {
			t.Fatalf("-twin +checker\n%s", diff)
		}
	})
}

var ignoreWorst = cmp.FilterPath(func(p cmp.Path) bool { return p.String() == "Worst" }, cmp.Ignore())

// TestNonsenseIsJudgedLikeTheTwin draws steps without any sense in them.
func TestNonsenseIsJudgedLikeTheTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		numbered := rapid.Bool().Draw(t, "numbered")
		steps := rapid.SliceOf(rapid.Custom(func(t *rapid.T) step {
			s := step{
				kind: rapid.SampledFrom([]Kind{KindProduced, KindHandled, KindHandled, KindHandled, KindCommit, KindAssigned}).Draw(t, "kind"),
				said: Commit{Offset: rapid.Int64Range(0, 8).Draw(t, "commit")},
			}
			s.h = Handling{
				Process:   rapid.SampledFrom([]string{"A", "B"}).Draw(t, "process"),
				ID:        ID{"p", rapid.SampledFrom([]string{"s", "t"}).Draw(t, "tenant")},
				Seq:       rapid.Uint64Range(1, 6).Draw(t, "seq"),
				Partition: rapid.Int32Range(0, 1).Draw(t, "partition"),
				Offset:    rapid.Int64Range(0, 7).Draw(t, "offset"),
			}
			s.said.Partition, s.named = s.h.Partition, rapid.Bool().Draw(t, "named")
			s.said.Frontier = s.said.Offset + rapid.Int64Range(0, 4).Draw(t, "frontier")
			for range rapid.IntRange(0, 2).Draw(t, "lanes") {
				name := rapid.SampledFrom([]uint32{offset.Name([]byte("s")), offset.Name([]byte("t")), 7}).Draw(t, "name")
				s.said.Lanes = append(s.said.Lanes, Lane{name, s.said.Offset + rapid.Int64Range(0, 4).Draw(t, "lane")})
			}
			if numbered {
				s.h.Assignment = rapid.Uint64Range(1, 4).Draw(t, "assignment")
			}
			return s
		})).Draw(t, "steps")
		if diff := cmp.Diff(naive(steps), replay(steps), ignoreWorst); diff != "" {
			t.Fatalf("-twin +checker\n%s", diff)
		}
	})
}

// mutant breaks a correct history at step i in one way, or says that it cannot.
type mutant struct {
	name  string
	apply func(steps []step, i int) ([]step, bool)
	found func(Report) bool
}

var mutants = []mutant{
	{"a record lost", func(steps []step, i int) ([]step, bool) {
		lost := steps[i]
		steps = slices.DeleteFunc(slices.Clone(steps), func(s step) bool {
			return s.kind == KindHandled && s.h.ID == lost.h.ID && s.h.Seq == lost.h.Seq
		})
		return steps, lost.kind == KindHandled
	}, func(r Report) bool { return r.Lost > 0 }},

	{"two records of a tenant swapped", func(steps []step, i int) ([]step, bool) {
		later := slices.IndexFunc(steps, func(s step) bool {
			return s.kind == KindHandled && s.h.ID == steps[i].h.ID && s.h.Seq == steps[i].h.Seq+1
		})
		if !isFirst(steps, i) || later < i {
			return nil, false
		}
		steps = slices.Clone(steps)
		a, b := &steps[i].h, &steps[later].h
		a.Seq, b.Seq = b.Seq, a.Seq
		a.Offset, b.Offset = b.Offset, a.Offset
		return steps, true
	}, func(r Report) bool { return r.OrderViolations > 0 }},

	{"a record repeated in its assignment", func(steps []step, i int) ([]step, bool) {
		return slices.Insert(slices.Clone(steps), i+1, steps[i]), steps[i].kind == KindHandled && steps[i].h.Assignment != 0
	}, func(r Report) bool { return r.OrderViolations > 0 }},

	{"a record repeated below the commit", func(steps []step, i int) ([]step, bool) {
		at := slices.IndexFunc(steps[i:], func(s step) bool {
			return s.h.Process == steps[i].h.Process && s.h.Partition == steps[i].h.Partition &&
				(s.kind == KindCommit && s.said.Offset > steps[i].h.Offset || s.kind == KindAssigned)
		})
		if steps[i].kind != KindHandled || at < 0 || steps[i+at].kind == KindAssigned {
			return nil, false // never committed in this assignment
		}
		return slices.Insert(slices.Clone(steps), i+at+1, steps[i]), true
	}, func(r Report) bool { return r.Duplicates > r.DuplicatesAllowed }},

	{"a commit before its record is done", func(steps []step, i int) ([]step, bool) {
		early := step{kind: KindCommit, h: steps[i].h, said: Commit{Partition: steps[i].h.Partition, Offset: steps[i].h.Offset + 1}}
		return slices.Insert(slices.Clone(steps), i, early), isFirst(steps, i)
	}, func(r Report) bool { return r.EarlyCommits > 0 }},

	{"a frontier above a record that is not done", func(steps []step, i int) ([]step, bool) {
		h := steps[i].h
		early := step{kind: KindCommit, h: h, said: Commit{Partition: h.Partition, Offset: h.Offset, Frontier: h.Offset + 1}}
		return slices.Insert(slices.Clone(steps), i, early), isFirst(steps, i) && steps[i].h.Assignment != 0
	}, func(r Report) bool { return r.EarlyCommits > 0 }},
}

func isFirst(steps []step, i int) bool {
	return steps[i].kind == KindHandled && i == slices.IndexFunc(steps, func(s step) bool {
		return s.kind == KindHandled && s.h.ID == steps[i].h.ID && s.h.Seq == steps[i].h.Seq
	})
}

// applyNear breaks the history at the first step from at on, and around its
// end, where it can be broken in this way.
func (m mutant) applyNear(steps []step, at int) ([]step, bool) {
	for i := range steps {
		if broken, ok := m.apply(steps, (at+i)%len(steps)); ok {
			return broken, true
		}
	}
	return nil, false
}

func TestEveryMutantIsFound(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			applied := 0
			rapid.Check(t, func(t *rapid.T) {
				steps := promise(t, true)
				broken, ok := m.applyNear(steps, rapid.IntRange(0, len(steps)-1).Draw(t, "at"))
				if !ok {
					return
				}
				applied++
				r := replay(broken)
				if !m.found(r) || r.OK() || len(r.Worst) == 0 || r.Worst[0].Example == "" {
					t.Fatalf("not found: %+v", r)
				}
			})
			if applied == 0 {
				t.Error("no history could be broken in this way")
			}
		})
	}
}
