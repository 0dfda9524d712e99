package main

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/tenantlane/tenantlane/lagwatch/notify"
)

// targetFlags are the pagers. Whatever is a secret comes from a file or the
// environment.
type targetFlags struct {
	webhook, webhookFile     string
	key, keyFile             string
	alertmanagers            []string
	pagerDuty, pagerDutyFile string
	pagerDutyURL             string
	pagerDutyTickets         bool
	slack, slackFile         string
	heartbeat, heartbeatFile string
	fallback, fallbackFile   string
	runbooks                 string
}

func (t *targetFlags) register(flags *pflag.FlagSet) {
	flags.StringSliceVar(&t.alertmanagers, "alertmanager-url", nil, "Alertmanager instances to tell, all of a cluster")
	flags.StringVar(&t.pagerDutyURL, "pagerduty-url", "", "PagerDuty's Events API v2 (default: the public one)")
	flags.BoolVar(&t.pagerDutyTickets, "pagerduty-tickets", false, "tell PagerDuty of tickets too, as warnings")
	flags.StringVar(&t.runbooks, "runbook-url", "", "what comes before an alert's name in its runbook link (default: the project's docs)")
	for _, s := range []struct {
		value, file *string
		name, what  string
	}{
		{&t.webhook, &t.webhookFile, "webhook-url", "URL of a webhook to tell"},
		{&t.key, &t.keyFile, "webhook-secret", "key that signs webhooks"},
		{&t.pagerDuty, &t.pagerDutyFile, "pagerduty-key", "routing key of a PagerDuty service to tell"},
		{&t.slack, &t.slackFile, "slack-url", "URL of a Slack incoming webhook to tell"},
		{&t.heartbeat, &t.heartbeatFile, "heartbeat-url", "URL to post to while everything is seen, for a dead man's switch"},
		{&t.fallback, &t.fallbackFile, "fallback-url", "URL of a webhook that is told what another target does not take"},
	} {
		variable := envNames(&pflag.Flag{Name: s.name})[0]
		flags.StringVar(s.value, s.name, "", s.what+"; only from "+variable+" or the config file")
		flags.StringVar(s.file, s.name+"-file", "", fmt.Sprintf("file that holds the %s (or set %s)", s.what, variable))
		secret(flags, s.name)
	}
}

// optionalSecret is readSecret for one that may be absent.
func optionalSecret(flag, value, file string) (notify.Secret, error) {
	if value == "" && file == "" {
		return "", nil
	}
	s, err := readSecret(flag, value, file)
	return notify.Secret(s), err
}

// none reports whether no target is given.
func (t *targetFlags) none() bool {
	return t.webhook+t.webhookFile+t.pagerDuty+t.pagerDutyFile+t.slack+t.slackFile == "" && len(t.alertmanagers) == 0
}

// targets makes the pagers that are given, and the fallback.
func (t *targetFlags) targets() (out []notify.Target, fallback notify.Target, err error) {
	key, err := optionalSecret("webhook-secret", t.key, t.keyFile)
	if err != nil {
		return nil, nil, err
	}
	for _, s := range []struct {
		flag, value, file string
		add               func(notify.Secret) error
	}{
		{"webhook-url", t.webhook, t.webhookFile, func(s notify.Secret) error {
			hook, bad := notify.NewWebhook(notify.WebhookConfig{URL: s, Secret: key})
			out = append(out, hook)
			return bad
		}},
		{"slack-url", t.slack, t.slackFile, func(s notify.Secret) error {
			slack, bad := notify.NewSlack(notify.SlackConfig{URL: s})
			out = append(out, slack)
			return bad
		}},
		{"pagerduty-key", t.pagerDuty, t.pagerDutyFile, func(s notify.Secret) error {
			duty, bad := notify.NewPagerDuty(notify.PagerDutyConfig{RoutingKey: s, URL: notify.Secret(t.pagerDutyURL), Tickets: t.pagerDutyTickets})
			out = append(out, duty)
			return bad
		}},
		{"fallback-url", t.fallback, t.fallbackFile, func(s notify.Secret) error {
			hook, bad := notify.NewWebhook(notify.WebhookConfig{Name: "fallback", URL: s, Secret: key})
			fallback = hook
			return bad
		}},
	} {
		value, bad := optionalSecret(s.flag, s.value, s.file)
		if bad != nil {
			return nil, nil, bad
		}
		if value == "" {
			continue
		}
		if err = s.add(value); err != nil {
			return nil, nil, usagef("--%s: %w", s.flag, err)
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
