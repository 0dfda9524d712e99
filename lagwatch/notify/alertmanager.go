package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// AlertmanagerConfig says where Alertmanagers are.
type AlertmanagerConfig struct {
	// URLs are the instances of one cluster, without /api/v2; each is told
	// everything, as Alertmanager wants it. Required.
	URLs []Secret
	// Resend is how often open alerts are sent again; default 1 min. Each says
	// that it holds for 15 min.
	Resend time.Duration
	// Transport replaces the HTTP transport; nil: http.DefaultTransport.
	Transport http.RoundTripper
}

// alertmanagerHolds is how long an alert is valid that is not sent again.
const alertmanagerHolds = 15 * time.Minute

// Alertmanager tells one instance by its API v2.
type Alertmanager struct {
	name   string
	url    Secret
	resend time.Duration
	post   poster
	skew   atomic.Int64
}

// NewAlertmanager returns a target per instance, named alertmanager,
// alertmanager-2 and so on; the error names a field that cannot be used.
func NewAlertmanager(cfg AlertmanagerConfig) ([]Target, error) {
	if cfg.Resend == 0 {
		cfg.Resend = time.Minute
	}
	if cfg.Resend < 0 || cfg.Resend >= alertmanagerHolds {
		return nil, fmt.Errorf("alertmanager: Resend %v: must be below %v", cfg.Resend, alertmanagerHolds)
	}
	if len(cfg.URLs) == 0 {
		return nil, errors.New("alertmanager: URLs: none")
	}
	out := make([]Target, len(cfg.URLs))
	for i, u := range cfg.URLs {
		if err := checkURL(u); err != nil {
			return nil, fmt.Errorf("alertmanager: URLs[%d]: %w", i, err)
		}
		name := "alertmanager"
		if i > 0 {
			name += "-" + strconv.Itoa(i+1)
		}
		out[i] = &Alertmanager{
			name: name, url: Secret(strings.TrimSuffix(u.Reveal(), "/") + "/api/v2/alerts"),
			resend: cfg.Resend, post: newPoster(cfg.Transport),
		}
	}
	return out, nil
}

// Name returns the instance's name.
func (a *Alertmanager) Name() string { return a.name }

// Renotify is how often open alerts are sent again.
func (a *Alertmanager) Renotify() time.Duration { return a.resend }

// Watchdog is true: an alert that is not sent again ends, which a route of the
// instance can page for.
func (*Alertmanager) Watchdog() bool { return true }

// Silences is true: Alertmanager has silences and inhibitions of its own.
func (*Alertmanager) Silences() bool { return true }

// ClockSkew is how far the instance's clock was from this one's at the last
// delivery. Beyond half a minute alerts end too early or too late there.
func (a *Alertmanager) ClockSkew() time.Duration { return time.Duration(a.skew.Load()) }

// alertmanagerAlert is the API's postableAlert.
type alertmanagerAlert struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	StartsAt    time.Time         `json:"startsAt"`
	EndsAt      time.Time         `json:"endsAt"`
}

// Send posts all alerts. On a 400 the instance may have kept the valid ones.
func (a *Alertmanager) Send(ctx context.Context, alerts []Alert) error { return a.send(ctx, alerts) }

// SendMinimal posts only what identifies the alerts.
func (a *Alertmanager) SendMinimal(ctx context.Context, alerts []Alert) error {
	return a.send(ctx, minimal(alerts))
}

func (a *Alertmanager) send(ctx context.Context, alerts []Alert) error {
	now := time.Now()
	out := make([]alertmanagerAlert, len(alerts))
	for i := range alerts {
		out[i] = postable(&alerts[i], now)
	}
	body, err := json.Marshal(out)
	if err != nil {
		return fmt.Errorf("alertmanager body: %w", err)
	}
	header, err := a.post.post(ctx, a.url, body, nil)
	if date, bad := http.ParseTime(header.Get("Date")); bad == nil {
		a.skew.Store(int64(date.Sub(now)))
	}
	return err
}

// postable has only the identity as labels: Alertmanager takes any other
// change of labels for another alert.
func postable(a *Alert, now time.Time) alertmanagerAlert {
	out := alertmanagerAlert{
		Labels: map[string]string{
			"alertname": a.Name, "cluster": a.Cluster, "group": a.Group, "topic": a.Topic, "pool": a.Pool,
		},
		Annotations: annotations(a), StartsAt: a.Since, EndsAt: now.Add(alertmanagerHolds),
	}
	if !a.ResolvedAt.IsZero() {
		out.EndsAt = a.ResolvedAt
	}
	for name, v := range out.Labels {
		if v == "" {
			delete(out.Labels, name)
		}
	}
	return out
}

// annotations are everything but the identity, as text.
func annotations(a *Alert) map[string]string {
	out := map[string]string{"summary": a.Summary, "severity": a.Severity, "class": a.Class, "owner": a.Owner}
	out["impact"], out["markers"] = a.Impact, strings.Join(a.Markers, "\n")
	if a.Runbook != "" {
		out["runbook_url"] = a.Runbook
	}
	if a.Tenant != "" {
		out["tenant"], out["share"] = a.Tenant, strconv.FormatFloat(a.Share, 'f', 3, 64)
	}
	if len(a.Partitions) > 0 {
		out["partitions"] = partitionList(a.Partitions)
	}
	if len(a.Commands) > 0 {
		out["commands"] = strings.Join(a.Commands, "\n")
	}
	for name, v := range a.Values {
		out[name] = strconv.FormatFloat(v, 'f', -1, 64)
	}
	for name, v := range out {
		if v == "" {
			delete(out, name)
		}
	}
	return out
}

func partitionList(ps []int32) string {
	var b strings.Builder
	for i, p := range ps {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(int(p)))
	}
	return b.String()
}
