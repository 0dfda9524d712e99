package integration

import (
	"fmt"
	"testing"
)

// outcome is what a scenario leaves to be judged.
type outcome struct {
	*run
	uncommitted error
	graceful    bool
}

// guarantees are what every scenario must leave intact, on every broker.
var guarantees = []struct {
	name  string
	holds func(outcome) error
}{
	{"nothing is lost", func(o outcome) error {
		if o.report.Lost > 0 || o.report.Produced == 0 {
			return fmt.Errorf("%d of %d produced records were never handled", o.report.Lost, o.report.Produced)
		}
		return nil
	}},
	{"each tenant in order", func(o outcome) error {
		if o.report.OrderViolations > 0 {
			return fmt.Errorf("%d records out of order", o.report.OrderViolations)
		}
		return nil
	}},
	{"repeats within the promise", func(o outcome) error {
		if o.report.Duplicates > o.report.DuplicatesAllowed {
			return fmt.Errorf("%d repeats, of which commits explain %d", o.report.Duplicates, o.report.DuplicatesAllowed)
		}
		return nil
	}},
	{"no repeat without a crash", func(o outcome) error {
		if o.graceful && o.report.Duplicates > 0 {
			return fmt.Errorf("%d repeats though every worker stopped by itself", o.report.Duplicates)
		}
		return nil
	}},
	{"no commit before the work", func(o outcome) error {
		if o.report.EarlyCommits > 0 {
			return fmt.Errorf("%d records were committed before they were done", o.report.EarlyCommits)
		}
		return nil
	}},
	{"every record is committed", func(o outcome) error { return o.uncommitted }},
	{"each record where the table says", func(o outcome) error {
		if n := o.strays.Load(); n > 0 {
			return fmt.Errorf("%d records in a partition that no table named for their tenant", n)
		}
		return nil
	}},
}

func TestGuarantees(t *testing.T) {
	forEachBroker(t, func(t *testing.T, b broker) {
		for _, s := range scenarios {
			t.Run(s.name, func(t *testing.T) {
				r := newRun(t, b)
				s.play(r)
				judge(t, r, s.graceful)
			})
		}
	})
}

// judge waits until the run's work is done and tests every guarantee.
func judge(t *testing.T, r *run, graceful bool) {
	t.Helper()
	o := outcome{run: r, graceful: graceful}
	o.uncommitted = r.settle()
	t.Logf("%d records of %d tenants produced, %d handlings, %d repeats",
		r.report.Produced, r.report.Tenants, r.handled.Load(), r.report.Duplicates)
	for _, g := range guarantees {
		t.Run(g.name, func(t *testing.T) {
			if err := g.holds(o); err != nil {
				t.Error(err)
			}
		})
	}
	if t.Failed() {
		for _, finding := range r.report.Worst {
			t.Logf("worst: %+v", finding)
		}
	}
}
