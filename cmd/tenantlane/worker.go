package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tenantlane/tenantlane/consumer"
)

type workerFlags struct {
	kafka  kafkaFlags
	table  tableFlags
	output outputFlags
	logs   logFlags
	target workerTarget
	policy workerPolicy
	admin  workerAdmin

	topic, group string
	instance     string
	assignor     bool
	spread       bool
	topTenants   int
	start        string
	concurrency  int

	logFile   string
	untilIdle time.Duration
	stats     time.Duration
	listen    string

	commitInterval time.Duration
	drainTimeout   time.Duration
	session        time.Duration
}

func newWorkerCommand(e *env) *cobra.Command {
	var f workerFlags
	cmd := &cobra.Command{
		Use:   "worker --topic T --group G (--url URL | --exec CMD | --discard)",
		Short: "Deliver each record, every tenant's in order",
		Long: "Consumes a topic as a member of a group and delivers each record to a target: one tenant's records\n" +
			"one at a time and in order, many tenants at once.\n\n" +
			"--url posts each record's value. 2xx is done; 429 and 503 wait as Retry-After says, and only that\n" +
			"tenant waits; what another 4xx means is --rejected's; everything else is tried again. Tenant, key,\n" +
			"topic, partition and offset are in the headers X-Tenant, X-Kafka-Key, X-Kafka-Topic, and so on.\n\n" +
			"--exec gives each value to a shell command's standard input, with TENANT, KAFKA_KEY, KAFKA_TOPIC,\n" +
			"KAFKA_PARTITION, KAFKA_OFFSET and ATTEMPT in its environment. Exit code 0 is done, 65 gives the\n" +
			"record up, any other is tried again. A worker that is killed takes its commands along on Linux, but not\n" +
			"what a shell started for one: write 'exec import-order' rather than 'import-order', so that none is left.\n\n" +
			"On SIGTERM it finishes what it has, commits and leaves the group within --drain-timeout; a second\n" +
			"signal stops it at once. A record that was replayed from another group's dead letters is skipped.\n\n" +
			"--admin serves what `tenantlane lanes` asks for, and /-/healthy and /-/ready for Kubernetes probes.",
		Example: "  tenantlane worker --topic orders --group billing --url http://localhost:8080/orders --concurrency 100\n" +
			"  tenantlane worker --topic orders --group archive --exec 'gzip >> \"$TENANT.gz\"'\n" +
			"  tenantlane worker --topic orders --group check --discard --log-file worker.log --until-idle 10s",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return e.work(cmd.Context(), &f) },
	}
	f.register(cmd.Flags())
	service(cmd)
	return cmd
}

func (f *workerFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.topic, "topic", "", "topic to consume")
	flags.StringVar(&f.group, "group", "", "consumer group to join")
	flags.StringVar(&f.instance, "instance-id", "", "static member of the group: a restart within --session-timeout moves no partitions; each worker needs its own")
	flags.BoolVar(&f.assignor, "server-assignor", false, "let brokers assign partitions (KIP-848), where they are Kafka 4.0 or newer; 4.3 is advised")
	flags.BoolVar(&f.spread, "spread-whales", false, "assign the partitions that the table dedicates to large tenants evenly over the members first; set it for every worker of the group, with a table")
	f.target.register(flags)
	flags.IntVar(&f.concurrency, "concurrency", 16, "records handled at once, each of another tenant")
	f.start = "earliest"
	flags.Var(choice(&f.start, "earliest", "latest"), "start", "where a group without commits begins: earliest or latest")
	f.policy.register(flags)
	flags.StringVar(&f.logFile, "log-file", "", "`file` to which a line for each handled record and each commit is appended, for verify")
	flags.DurationVar(&f.untilIdle, "until-idle", 0, "end with 0 when nothing came for that long (default: run until stopped)")
	flags.DurationVar(&f.stats, "stats-interval", 5*time.Second, "time between stats lines")
	flags.StringVar(&f.listen, "listen", "", "address for /metrics and /-/healthy; without a host it is loopback (default: none)")
	flags.IntVar(&f.topTenants, "tenant-metrics", 0, "export depth and rate of so many tenants, those that want a look first; at most 100 (default: none)")
	f.admin.register(flags)
	flags.DurationVar(&f.commitInterval, "commit-interval", time.Second, "time between commits; what was done since the last one repeats after a crash")
	flags.DurationVar(&f.drainTimeout, "drain-timeout", 20*time.Second, "how long a stop waits for records in the worker")
	flags.DurationVar(&f.session, "session-timeout", 45*time.Second, "how long the group waits for a worker that died before it gives its partitions away")
	f.kafka.register(flags)
	f.table.register(flags, &f.kafka)
	f.output.register(flags)
	f.logs.register(flags, "info")
}

func (f *workerFlags) validate() error {
	switch {
	case f.topic == "":
		return usagef("--topic: missing")
	case f.group == "":
		return usagef("--group: missing")
	case f.spread && !f.table.given():
		return usagef("--spread-whales: needs a table")
	case f.spread && f.assignor:
		return usagef("--spread-whales: with --server-assignor the brokers assign")
	case f.topTenants < 0 || f.topTenants > 100:
		return usagef("--tenant-metrics: %d, want 0 to 100", f.topTenants)
	case f.topTenants > 0 && f.listen == "" && f.admin.address == "":
		return usagef("--tenant-metrics: needs --listen or --admin")
	case f.concurrency < 1:
		return usagef("--concurrency: %d, want at least 1", f.concurrency)
	case f.untilIdle < 0:
		return usagef("--until-idle: %s is negative", f.untilIdle)
	case f.stats <= 0:
		return usagef("--stats-interval: %s, want more than 0", f.stats)
	case f.commitInterval < 10*time.Millisecond:
		return usagef("--commit-interval: %s, want at least 10ms", f.commitInterval)
	case f.drainTimeout <= 0:
		return usagef("--drain-timeout: %s, want more than 0", f.drainTimeout)
	case f.session < time.Second:
		return usagef("--session-timeout: %s, want at least 1s", f.session)
	}
	if err := errors.Join(f.policy.validate(), f.admin.validate()); err != nil {
		return err
	}
	return f.target.validate()
}

// workerPolicy is what becomes of records that are not done at once.
type workerPolicy struct {
	timeout    time.Duration
	attempts   int
	exhausted  string
	deadLetter string
	noTenant   string

	maxDistance int64
	tooFar      string
}

func (p *workerPolicy) register(flags *pflag.FlagSet) {
	flags.DurationVar(&p.timeout, "handler-timeout", 30*time.Second, "deadline of one attempt")
	flags.IntVar(&p.attempts, "attempts", 0, "attempts a record has before --exhausted applies (default: no end)")
	p.exhausted = "park"
	flags.Var(choice(&p.exhausted, "park", "dead-letter"), "exhausted", "a record without attempts left, or given up: park its tenant, or dead-letter it and go on")
	flags.StringVar(&p.deadLetter, "dead-letter-topic", "", "topic for dead letters, which must exist (default: the topic with "+consumer.DeadLetterSuffix+" appended)")
	p.noTenant = "lane"
	flags.Var(choice(&p.noTenant, "lane", "error", "skip", "dead-letter"), "no-tenant", "records without a tenant: one ordered lane per partition, error, skip or dead-letter")
	flags.Int64Var(&p.maxDistance, "max-distance", 10_000_000, "records of its partition that a lane may be behind what was read, before --too-far applies")
	p.tooFar = "pause"
	flags.Var(choice(&p.tooFar, "pause", "dead-letter"), "too-far", "a lane beyond --max-distance: pause its partition, or dead-letter its oldest records and go on")
}

func (p *workerPolicy) validate() error {
	switch {
	case p.timeout <= 0:
		return usagef("--handler-timeout: %s, want more than 0", p.timeout)
	case p.attempts < 0:
		return usagef("--attempts: %d is negative", p.attempts)
	case p.deadLetter != "" && !p.needsDeadLetters():
		return usagef("--dead-letter-topic: needs --exhausted, --no-tenant or --too-far dead-letter")
	case p.maxDistance < 1:
		return usagef("--max-distance: %d, want at least 1", p.maxDistance)
	}
	return nil
}

func (p *workerPolicy) needsDeadLetters() bool {
	return p.exhausted == "dead-letter" || p.noTenant == "dead-letter" || p.tooFar == "dead-letter"
}

// deadLetterTopic is where dead letters of a topic go.
func (p *workerPolicy) deadLetterTopic(topic string) string {
	if p.deadLetter != "" {
		return p.deadLetter
	}
	return topic + consumer.DeadLetterSuffix
}

// apply sets the policy in a runtime's configuration.
func (p *workerPolicy) apply(cfg *consumer.Config) error {
	cfg.HandlerTimeout = p.timeout
	cfg.Retry.Attempts = p.attempts
	if p.exhausted == "dead-letter" {
		cfg.Retry.Exhausted = consumer.DeadLetter
	}
	cfg.DeadLetterTopic = p.deadLetterTopic
	cfg.MaxDistance = p.maxDistance
	if p.tooFar == "dead-letter" {
		cfg.TooFar = consumer.TooFarDeadLetter
	}
	choices := map[string]consumer.NoTenant{
		"lane": consumer.NoTenantLane, "error": consumer.NoTenantError,
		"skip": consumer.NoTenantSkip, "dead-letter": consumer.NoTenantDeadLetter,
	}
	choice, ok := choices[p.noTenant]
	if !ok {
		return fmt.Errorf("--no-tenant: %q is unknown", p.noTenant)
	}
	cfg.NoTenant = choice
	return nil
}
