package lagwatch

import (
	"context"
	"fmt"

	"github.com/tenantlane/tenantlane/lagwatch/notify"
)

// Finding is one thing that Check looked at.
type Finding struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

// Check looks whether the watcher could do its work: whether everything it
// should watch can be seen, whether anyone is told, and whether anyone outside
// would notice if it went silent. It sends nothing. The error is about the
// client.
func (w *Watcher) Check(ctx context.Context) ([]Finding, error) {
	e, err := w.Once(ctx)
	if err != nil {
		return nil, err
	}
	return append([]Finding{sight(e)}, w.checkTargets()...), nil
}

func sight(e *Evaluation) Finding {
	f := Finding{Name: "sight", OK: !e.Blind && len(e.Groups) > 0}
	partitions := 0
	for i := range e.Groups {
		partitions += len(e.Groups[i].Partitions)
	}
	switch {
	case e.Blind && len(e.Errors) > 0:
		f.Detail = e.Errors[0]
	case e.Blind:
		f.Detail = fmt.Sprintf("%d of %d partitions cannot be seen, or a group does not exist", e.Unknown, partitions)
	case len(e.Groups) == 0:
		f.Detail = "there is no group to watch"
	default:
		f.Detail = fmt.Sprintf("sees %d partitions in %d pools", partitions, len(e.Groups))
	}
	return f
}

func (w *Watcher) checkTargets() []Finding {
	told := Finding{Name: "targets", OK: len(w.cfg.Targets) > 0, Detail: "nobody is told: configure a target"}
	if told.OK {
		told.Detail = fmt.Sprintf("%d targets", len(w.cfg.Targets))
	}
	silence := Finding{
		Name: "silence", OK: w.cfg.HeartbeatURL != "",
		Detail: "nobody outside would notice if this watcher went silent: configure a heartbeat, or an Alertmanager that pages when watchdog does not fire",
	}
	for _, t := range w.cfg.Targets {
		if notify.Watchdog(t) {
			silence.OK = true
		}
	}
	if silence.OK {
		silence.Detail = "a heartbeat or watchdog is sent"
	}
	state := Finding{Name: "state", OK: w.cfg.StateFile != "", Detail: "without a state file a restart pages again and loses ends"}
	if state.OK {
		state.Detail = "is kept in " + w.cfg.StateFile
	}
	return []Finding{told, silence, state}
}

// TestPage sends a page that says it is a test to every target, and its end.
func (w *Watcher) TestPage(ctx context.Context) error { return w.notifier.TestPage(ctx, w.cfg.Cluster) }
