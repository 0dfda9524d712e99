package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// SlackConfig says which channel is told.
type SlackConfig struct {
	// URL is an incoming webhook's, required; it is a secret.
	URL Secret
	// Transport replaces the HTTP transport; nil: http.DefaultTransport.
	Transport http.RoundTripper
}

// Slack posts to a channel, at least once: Slack does not recognize repeats.
type Slack struct {
	cfg  SlackConfig
	post poster
}

// NewSlack returns a target; the error names a field that cannot be used.
func NewSlack(cfg SlackConfig) (*Slack, error) {
	if err := checkURL(cfg.URL); err != nil {
		return nil, fmt.Errorf("slack: %w", err)
	}
	return &Slack{cfg: cfg, post: newPoster(cfg.Transport)}, nil
}

// Name is "slack".
func (*Slack) Name() string { return "slack" }

// slackText is what Slack shows of a message, in bytes; the rest is cut.
const slackText = 30_000

// Send posts one message for all alerts.
func (s *Slack) Send(ctx context.Context, alerts []Alert) error {
	var b strings.Builder
	for i := range alerts {
		writeSlack(&b, &alerts[i])
	}
	return s.say(ctx, b.String())
}

// SendMinimal posts the names alone.
func (s *Slack) SendMinimal(ctx context.Context, alerts []Alert) error {
	var b strings.Builder
	for i := range alerts {
		a := &alerts[i]
		fmt.Fprintf(&b, "%s: %s (group %s, topic %s)\n", a.Status(), a.Name, slackEscape(a.Group), slackEscape(a.Topic))
	}
	return s.say(ctx, b.String())
}

func (s *Slack) say(ctx context.Context, text string) error {
	body, err := json.Marshal(struct {
		Text string `json:"text"`
	}{shorten(text, slackText)})
	if err != nil {
		return fmt.Errorf("slack body: %w", err)
	}
	_, err = s.post.post(ctx, s.cfg.URL, body, nil)
	return err
}

func writeSlack(b *strings.Builder, a *Alert) {
	if !a.ResolvedAt.IsZero() {
		fmt.Fprintf(b, ":white_check_mark: resolved: *%s* group %s, topic %s\n", a.Name, slackEscape(a.Group), slackEscape(a.Topic))
		return
	}
	icon := map[string]string{"critical": ":rotating_light:", "page": ":red_circle:"}[a.Severity]
	if icon == "" {
		icon = ":ticket:"
	}
	fmt.Fprintf(b, "%s *%s* (%s) %s\n", icon, a.Name, a.Severity, slackEscape(a.Summary))
	fmt.Fprintf(b, "Since %s. %s\n", a.Since.UTC().Format("15:04 UTC"), slackEscape(a.Impact))
	for _, m := range a.Markers {
		fmt.Fprintf(b, "Before it: %s\n", slackEscape(m))
	}
	if len(a.Commands) > 0 {
		fmt.Fprintf(b, "```%s```\n", slackEscape(strings.Join(a.Commands, "\n")))
	}
	if a.Runbook != "" {
		fmt.Fprintf(b, "<%s|Runbook>\n", slackEscape(a.Runbook))
	}
}

// slackEscape takes the meaning from the three characters that have one; a
// tenant's name must not become a link or a mention.
func slackEscape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}
