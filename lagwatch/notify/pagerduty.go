package notify

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
	"unicode/utf8"
)

// PagerDutyConfig says how PagerDuty is told.
type PagerDutyConfig struct {
	// RoutingKey is the integration key of an Events API v2 service, required.
	RoutingKey Secret
	// URL is the API; default https://events.pagerduty.com/v2/enqueue.
	URL Secret
	// Renotify is after how long an open alert is triggered again; default 4 h.
	Renotify time.Duration
	// Tickets sends tickets too, as warnings; else only pages.
	Tickets bool
	// Transport replaces the HTTP transport; nil: http.DefaultTransport.
	Transport http.RoundTripper
}

// PagerDuty tells PagerDuty by its Events API v2, which recognizes repeats by
// the dedup key.
type PagerDuty struct {
	cfg  PagerDutyConfig
	post poster
}

// Limits of the Events API v2.
const (
	pagerDutySummary = 1024
	pagerDutyEvent   = 512 << 10
	// pagerDutyBusy is the least wait after a 429: it counts events a minute.
	pagerDutyBusy = 2 * time.Minute
)

// NewPagerDuty returns a target; the error names a field that cannot be used.
func NewPagerDuty(cfg PagerDutyConfig) (*PagerDuty, error) {
	cfg.URL = cmp.Or(cfg.URL, "https://events.pagerduty.com/v2/enqueue")
	cfg.Renotify = cmp.Or(cfg.Renotify, 4*time.Hour)
	if cfg.RoutingKey == "" {
		return nil, errors.New("pagerduty: RoutingKey: missing")
	}
	if err := checkURL(cfg.URL); err != nil {
		return nil, fmt.Errorf("pagerduty: %w", err)
	}
	return &PagerDuty{cfg: cfg, post: newPoster(cfg.Transport)}, nil
}

// Name is "pagerduty".
func (*PagerDuty) Name() string { return "pagerduty" }

// Renotify is after how long an open alert is triggered again.
func (p *PagerDuty) Renotify() time.Duration { return p.cfg.Renotify }

// Account is a fingerprint of the routing key: alerts that another key opened
// are unknown under this one.
func (p *PagerDuty) Account() string {
	h := sha256.Sum256([]byte("pagerduty\x00" + p.cfg.RoutingKey.Reveal()))
	return hex.EncodeToString(h[:4])
}

// Silences is true: PagerDuty has maintenance windows of its own.
func (*PagerDuty) Silences() bool { return true }

// Wants leaves tickets out unless they were asked for.
func (p *PagerDuty) Wants(a *Alert) bool { return p.cfg.Tickets || loudness(a.Severity) > 0 }

// Send posts an event per alert. A *SendError says how many were taken.
func (p *PagerDuty) Send(ctx context.Context, alerts []Alert) error { return p.send(ctx, alerts) }

// SendMinimal posts only what identifies the alerts.
func (p *PagerDuty) SendMinimal(ctx context.Context, alerts []Alert) error {
	return p.send(ctx, minimal(alerts))
}

func (p *PagerDuty) send(ctx context.Context, alerts []Alert) error {
	for i := range alerts {
		body, err := p.event(&alerts[i])
		if err != nil {
			return fmt.Errorf("pagerduty event: %w", err)
		}
		if _, err := p.post.post(ctx, p.cfg.URL, body, nil); err != nil {
			if se, ok := errors.AsType[*SendError](err); ok {
				se.Done = i
				if se.Status == http.StatusTooManyRequests {
					se.RetryAfter = max(se.RetryAfter, pagerDutyBusy)
				}
			}
			return err
		}
	}
	return nil
}

type pagerDutyEventBody struct {
	RoutingKey  string            `json:"routing_key"`
	EventAction string            `json:"event_action"`
	DedupKey    string            `json:"dedup_key"`
	Client      string            `json:"client,omitempty"`
	Payload     *pagerDutyPayload `json:"payload,omitempty"`
	Links       []pagerDutyLink   `json:"links,omitempty"`
}

type pagerDutyPayload struct {
	Summary   string            `json:"summary"`
	Source    string            `json:"source"`
	Severity  string            `json:"severity"`
	Timestamp time.Time         `json:"timestamp"`
	Component string            `json:"component,omitempty"`
	Group     string            `json:"group,omitempty"`
	Class     string            `json:"class,omitempty"`
	Details   map[string]string `json:"custom_details,omitempty"`
}

type pagerDutyLink struct {
	Href string `json:"href"`
	Text string `json:"text"`
}

// event is one event's body, with fewer details when it would be too large.
func (p *PagerDuty) event(a *Alert) ([]byte, error) {
	body := pagerDutyEventBody{RoutingKey: p.cfg.RoutingKey.Reveal(), DedupKey: a.Key(), EventAction: "resolve"}
	if a.ResolvedAt.IsZero() {
		body.EventAction, body.Client = "trigger", "tenantlane lagwatch"
		body.Payload = &pagerDutyPayload{
			Summary: shorten(cmp.Or(a.Summary, a.Name), pagerDutySummary), Source: cmp.Or(a.Cluster, "kafka"),
			Severity: pagerDutySeverity(a.Severity), Timestamp: a.Since,
			Component: a.Topic, Group: a.Group, Class: cmp.Or(a.Class, a.Name), Details: annotations(a),
		}
		if a.Runbook != "" {
			body.Links = []pagerDutyLink{{a.Runbook, "Runbook"}}
		}
	}
	data, err := json.Marshal(body)
	if err == nil && len(data) > pagerDutyEvent {
		body.Payload.Details = nil
		data, err = json.Marshal(body)
	}
	return data, err
}

func pagerDutySeverity(severity string) string {
	switch severity {
	case "critical":
		return "critical"
	case "page":
		return "error"
	}
	return "warning"
}

// shorten cuts a text to n bytes at a rune, with an ellipsis.
func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	const dots = "…"
	cut := n - len(dots)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + dots
}
