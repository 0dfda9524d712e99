package main

import (
	"github.com/spf13/pflag"

	"github.com/tenantlane/tenantlane/lagwatch/notify"
)

// targetFlags are the pagers. Whatever is a secret comes from a file or the
// environment.
type targetFlags struct {
	webhook, key, pagerDuty, slack secretFlag
	heartbeat, fallback            secretFlag
	alertmanagers                  []string
	pagerDutyURL                   string
	pagerDutyTickets               bool
	runbooks                       string
}

func (t *targetFlags) register(flags *pflag.FlagSet) {
	flags.StringSliceVar(&t.alertmanagers, "alertmanager-url", nil, "Alertmanager instances to tell, all of a cluster")
	flags.StringVar(&t.pagerDutyURL, "pagerduty-url", "", "PagerDuty's Events API v2 (default: the public one)")
	flags.BoolVar(&t.pagerDutyTickets, "pagerduty-tickets", false, "tell PagerDuty of tickets too, as warnings")
	flags.StringVar(&t.runbooks, "runbook-url", "", "what comes before an alert's name in its runbook link (default: the project's docs)")
	t.webhook.register(flags, "webhook-url", "URL of a webhook to tell")
	t.key.register(flags, "webhook-secret", "key that signs webhooks")
	t.pagerDuty.register(flags, "pagerduty-key", "routing key of a PagerDuty service to tell")
	t.slack.register(flags, "slack-url", "URL of a Slack incoming webhook to tell")
	t.heartbeat.register(flags, "heartbeat-url", "URL to post to while everything is seen, for a dead man's switch")
	t.fallback.register(flags, "fallback-url", "URL of a webhook that is told what another target does not take")
}

// none reports whether no target is given.
func (t *targetFlags) none() bool {
	return !t.webhook.given() && !t.pagerDuty.given() && !t.slack.given() && len(t.alertmanagers) == 0
}

// targets makes the pagers that are given, and the fallback.
func (t *targetFlags) targets() (out []notify.Target, fallback notify.Target, err error) {
	key, err := t.key.optional()
	if err != nil {
		return nil, nil, err
	}
	for _, s := range []struct {
		secret *secretFlag
		add    func(notify.Secret) error
	}{
		{&t.webhook, func(s notify.Secret) error {
			hook, bad := notify.NewWebhook(notify.WebhookConfig{URL: s, Secret: notify.Secret(key)})
			out = append(out, hook)
			return bad
		}},
		{&t.slack, func(s notify.Secret) error {
			slack, bad := notify.NewSlack(notify.SlackConfig{URL: s})
			out = append(out, slack)
			return bad
		}},
		{&t.pagerDuty, func(s notify.Secret) error {
			duty, bad := notify.NewPagerDuty(notify.PagerDutyConfig{RoutingKey: s, URL: notify.Secret(t.pagerDutyURL), Tickets: t.pagerDutyTickets})
			out = append(out, duty)
			return bad
		}},
		{&t.fallback, func(s notify.Secret) error {
			hook, bad := notify.NewWebhook(notify.WebhookConfig{Name: "fallback", URL: s, Secret: notify.Secret(key)})
			fallback = hook
			return bad
		}},
	} {
		value, bad := s.secret.optional()
		if bad != nil {
			return nil, nil, bad
		}
		if value == "" {
			continue
		}
		if err = s.add(notify.Secret(value)); err != nil {
			return nil, nil, usagef("--%s: %w", s.secret.name, err)
		}
	}
	more, err := t.alertmanager()
	return append(out, more...), fallback, err
}

func (t *targetFlags) alertmanager() ([]notify.Target, error) {
	if len(t.alertmanagers) == 0 {
		return nil, nil
	}
	urls := make([]notify.Secret, len(t.alertmanagers))
	for i, u := range t.alertmanagers {
		urls[i] = notify.Secret(u)
	}
	targets, err := notify.NewAlertmanager(notify.AlertmanagerConfig{URLs: urls})
	if err != nil {
		return nil, usagef("--alertmanager-url: %w", err)
	}
	return targets, nil
}
