package main

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/tenantlane/tenantlane/consumer"
	"github.com/tenantlane/tenantlane/internal/deliver"
)

// workerTarget is where records go: exactly one of --url, --exec, --discard.
type workerTarget struct {
	url      string
	exec     string
	discard  bool
	sleep    time.Duration
	giveUp   []string
	rejected string
	timeout  time.Duration
}

func (t *workerTarget) register(flags *pflag.FlagSet) {
	flags.StringVar(&t.url, "url", "", "target: an HTTP endpoint that each record is posted to")
	flags.StringVar(&t.exec, "exec", "", "target: a shell command that gets each record on its standard input")
	flags.BoolVar(&t.discard, "discard", false, "target: nothing; records are only counted (and logged)")
	flags.DurationVar(&t.sleep, "handler-sleep", 0, "with --discard: how long each record takes")
	flags.StringArrayVar(&t.giveUp, "handler-fail", nil, "with --discard: `TENANT` whose records are all given up, to see what becomes of them and of the others; repeatable")
	t.rejected = "give-up"
	flags.Var(choice(&t.rejected, "give-up", "retry", "skip"), "rejected",
		"with --url: what a 4xx other than 408, 425 and 429 means: give-up (--exhausted applies), retry or skip")
	flags.DurationVar(&t.timeout, "request-timeout", 10*time.Second, "with --url: deadline of one request")
}

func (t *workerTarget) validate() error {
	given := 0
	for _, is := range []bool{t.url != "", t.exec != "", t.discard} {
		if is {
			given++
		}
	}
	switch {
	case given != 1:
		return usagef("wants exactly one target: --url URL, --exec CMD or --discard")
	case t.sleep < 0:
		return usagef("--handler-sleep: %s is negative", t.sleep)
	case t.sleep > 0 && !t.discard:
		return usagef("--handler-sleep: goes with --discard only")
	case len(t.giveUp) > 0 && !t.discard:
		return usagef("--handler-fail: goes with --discard only")
	case t.timeout <= 0:
		return usagef("--request-timeout: %s, want more than 0", t.timeout)
	}
	return nil
}

// handler makes the target. closeTarget is to be called after its last record.
func (t *workerTarget) handler(concurrency int) (h consumer.Handler, closeTarget func(), err error) {
	closeTarget = func() {}
	switch {
	case t.url != "":
		post, failed := deliver.NewHTTP(deliver.HTTPConfig{
			URL: t.url, Timeout: t.timeout, Connections: concurrency,
			Rejected: map[string]deliver.Rejected{"retry": deliver.RejectedRetry, "skip": deliver.RejectedSkip}[t.rejected],
		})
		if failed != nil {
			return nil, nil, usagef("--url: %w", failed)
		}
		return post.Handle, post.Close, nil
	case t.exec != "":
		if h, err = deliver.NewExec("sh", "-c", t.exec); err != nil {
			return nil, nil, usagef("--exec: %w", err)
		}
		return h, closeTarget, nil
	}
	h = deliver.Discard(t.sleep)
	if len(t.giveUp) > 0 {
		h = deliver.GiveUp(t.giveUp, h)
	}
	return h, closeTarget, nil
}
