package rebalance

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

// faultyStore fails a write before or after it takes effect.
type faultyStore struct {
	*store.File
	before, after error
}

func (s *faultyStore) Write(ctx context.Context, t *routing.Table) error {
	if s.before != nil {
		return s.before
	}
	return errors.Join(s.File.Write(ctx, t), s.after)
}

func TestAFailedWriteAbortsAMove(t *testing.T) {
	w := newWorld(t)
	full := errors.New("no space left on device")
	report, err := w.coordinator(&faultyStore{File: w.file, before: full}).MoveStopped(patient(t), acmeStopped)
	w.aborted(report, err, full)
}

func TestAWriteThatFailedAfterItTookEffectIsDone(t *testing.T) {
	w := newWorld(t)
	report, err := w.coordinator(&faultyStore{File: w.file, after: errors.New("directory not synced")}).MoveStopped(patient(t), acmeStopped)
	if err != nil || report.State != StateDone || report.Revision != 2 {
		t.Errorf("%+v, %v", report, err)
	}
	w.home(3)
}

// racingStore replaces the table just before its first Write.
type racingStore struct {
	*store.File
	t     testing.TB
	other *store.File
	edit  routing.Edit
	once  sync.Once
}

func (s *racingStore) Write(ctx context.Context, t *routing.Table) error {
	s.once.Do(func() {
		next, err := s.other.Table().Edit(s.edit)
		if err == nil {
			err = s.other.Write(ctx, next)
		}
		if err != nil {
			s.t.Error(err)
		}
	})
	return s.File.Write(ctx, t)
}

func TestAMoveFollowsAnotherWritersTable(t *testing.T) {
	w := newWorld(t)
	beside := routing.SetPlacement("orders", "globex", routing.Placement{Partitions: []int32{2}})
	report, err := w.coordinator(&racingStore{File: w.file, t: t, other: w.open(), edit: beside}).MoveStopped(patient(t), acmeStopped)
	if err != nil || report.Revision != 3 || report.Epoch != 3 {
		t.Errorf("%+v, %v", report, err)
	}
	topic, _ := w.file.Table().Topic("orders")
	if got := topic.Lookup([]byte("globex"), nil).Partition; got != 2 {
		t.Errorf("the other writer's change is lost: globex goes to %d", got)
	}
	w.home(3)
}

func TestAMoveGivesWayToAnotherPlacementOfItsTenant(t *testing.T) {
	w := newWorld(t)
	same := routing.SetPlacement("orders", "acme", routing.Placement{Partitions: []int32{2}})
	report, err := w.coordinator(&racingStore{File: w.file, t: t, other: w.open(), edit: same}).MoveStopped(patient(t), acmeStopped)
	if !errors.Is(err, ErrPlacementChanged) || report.State != StateAborted {
		t.Errorf("%+v, %v", report, err)
	}
	w.home(2)
}
