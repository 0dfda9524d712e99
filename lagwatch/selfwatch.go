package lagwatch

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/lagwatch/lag"
	"github.com/tenantlane/tenantlane/lagwatch/notify"
)

// watchSelf adds what concerns the watcher itself: targets that do not take
// alerts, and the watchdog, which fires as long as everything is seen, so that
// its silence can be noticed.
func (w *Watcher) watchSelf(e *Evaluation) {
	failing := w.notifier.Failing()
	for _, target := range slices.Sorted(maps.Keys(failing)) {
		since, known := w.failingSince[target]
		if !known {
			since = e.At
			w.failingSince[target] = since
		}
		a := notify.Alert{
			Name: lag.AlertNotifyFailing, Cluster: e.Cluster, Pool: target, Severity: lag.Page.String(), Since: since,
			Summary: fmt.Sprintf("Target %s does not take alerts: %v", target, failing[target]), Runbook: w.engine.runbook(lag.AlertNotifyFailing),
			Impact: impact(lag.AlertNotifyFailing),
		}
		e.Watcher = append(e.Watcher, Firing{Alert: a.Name, Severity: a.Severity, Since: since, Summary: a.Summary, Partitions: []int32{}})
		e.alerts = append(e.alerts, a)
	}
	maps.DeleteFunc(w.failingSince, func(target string, _ time.Time) bool { return failing[target] == nil })
	if e.Blind {
		w.watchdogSince = time.Time{}
		return
	}
	if w.watchdogSince.IsZero() {
		w.watchdogSince = e.At
	}
	e.alerts = append(e.alerts, notify.Alert{
		Name: lag.AlertWatchdog, Cluster: e.Cluster, Severity: lag.Ticket.String(), Since: w.watchdogSince,
		Summary: "The watcher sees everything. This alert always fires; page when it does not.", Runbook: w.engine.runbook(lag.AlertWatchdog),
	})
}

// heartbeatEvery bounds how often the heartbeat is sent.
const heartbeatEvery = time.Minute

// heartbeat tells the dead man's switch that an evaluation saw everything. It
// follows no redirect and waits for nobody for long.
func (w *Watcher) heartbeat(ctx context.Context, e *Evaluation) {
	url := w.cfg.HeartbeatURL.Reveal()
	if url == "" || e.Blind || e.At.Sub(w.beatAt) < heartbeatEvery {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(min(w.cfg.Rule.Interval, 5*time.Second), time.Second))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
	if err != nil {
		w.log.Error("the heartbeat's URL cannot be used")
		return
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil { // its text would hold the URL, which is a secret
		w.log.Warn("the heartbeat was not taken")
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		w.log.Warn("the heartbeat was not taken", zap.Int("status", resp.StatusCode))
		return
	}
	w.beatAt = e.At
}
