package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// WebhookConfig says where a webhook goes.
type WebhookConfig struct {
	// Name is what logs and metrics call it; default "webhook".
	Name string
	// URL is where to post, required.
	URL Secret
	// Secret signs each body (see SignatureHeader); empty: not signed.
	Secret Secret
	// Transport replaces the HTTP transport; nil: http.DefaultTransport.
	Transport http.RoundTripper
}

// Webhook posts alerts as JSON, at least once.
type Webhook struct {
	cfg  WebhookConfig
	post poster
}

// WebhookBody is what a webhook receives.
type WebhookBody struct {
	// Version is 1; a receiver should refuse another one.
	Version int            `json:"version"`
	Alerts  []WebhookAlert `json:"alerts"`
}

// WebhookAlert is one alert in a WebhookBody. Repeats have the same DedupKey
// and Status.
type WebhookAlert struct {
	DedupKey string `json:"dedup_key"`
	Status   string `json:"status"`
	Alert
}

// NewWebhook returns a webhook target; the error names a field that cannot be
// used.
func NewWebhook(cfg WebhookConfig) (*Webhook, error) {
	if err := checkURL(cfg.URL); err != nil {
		return nil, fmt.Errorf("webhook: %w", err)
	}
	if cfg.Name == "" {
		cfg.Name = "webhook"
	}
	return &Webhook{cfg: cfg, post: newPoster(cfg.Transport)}, nil
}

// Name returns the configured name.
func (w *Webhook) Name() string { return w.cfg.Name }

// Send posts all alerts in one body.
func (w *Webhook) Send(ctx context.Context, alerts []Alert) error { return w.send(ctx, alerts) }

// SendMinimal posts only what identifies the alerts.
func (w *Webhook) SendMinimal(ctx context.Context, alerts []Alert) error {
	return w.send(ctx, minimal(alerts))
}

func (w *Webhook) send(ctx context.Context, alerts []Alert) error {
	body := WebhookBody{Version: 1, Alerts: make([]WebhookAlert, len(alerts))}
	for i, a := range alerts {
		body.Alerts[i] = WebhookAlert{DedupKey: a.Key(), Status: a.Status(), Alert: a}
	}
	data, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("webhook body: %w", err)
	}
	header := http.Header{}
	if w.cfg.Secret != "" {
		header.Set(SignatureHeader, Sign(w.cfg.Secret, time.Now(), data))
	}
	_, err = w.post.post(ctx, w.cfg.URL, data, header)
	return err
}

// minimal keeps identity, severity and times, for a receiver that refused the
// rest.
func minimal(alerts []Alert) []Alert {
	out := make([]Alert, len(alerts))
	for i, a := range alerts {
		out[i] = Alert{
			Name: a.Name, Cluster: a.Cluster, Group: a.Group, Topic: a.Topic, Pool: a.Pool,
			Severity: a.Severity, Since: a.Since, ResolvedAt: a.ResolvedAt, Summary: a.Name,
		}
	}
	return out
}
