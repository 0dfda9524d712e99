package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/consumer"
	"github.com/tenantlane/tenantlane/consumer/middleware"
	"github.com/tenantlane/tenantlane/internal/deliver"
	"github.com/tenantlane/tenantlane/partitioner"
)

// work checks what can be wrong before it joins the group.
func (e *env) work(ctx context.Context, f *workerFlags) (err error) {
	if err = f.validate(); err != nil {
		return err
	}
	target, closeTarget, err := f.target.handler(f.concurrency)
	if err != nil {
		return err
	}
	defer closeTarget()
	log := f.logs.logger(e)
	metrics, stopServer, err := serveMetrics(ctx, f.listen, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopServer()) }()
	if metrics == nil && f.admin.address != "" {
		metrics = newRegistry()
	}
	cfg, closeTable, err := f.consumer(ctx, log, metrics)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeTable()) }()
	out, closeLog, err := openWorkerLog(ctx, f.logFile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeLog()) }()
	return e.runWorker(ctx, f, deliver.Config{
		Consumer: cfg, Target: middleware.OwnReplays(f.group)(target), Log: out,
		UntilIdle: f.untilIdle, StatsInterval: f.stats, OnStats: func(s deliver.Stats) { e.workerStats(f, s) },
	}, metrics)
}

// runWorker runs a worker, and its admin endpoint beside it.
func (e *env) runWorker(ctx context.Context, f *workerFlags, cfg deliver.Config, metrics *prometheus.Registry) (err error) {
	worker, err := deliver.New(cfg)
	if err != nil {
		return usagef("%w", err)
	}
	stopAdmin, err := f.admin.serve(ctx, worker.Runtime(), metrics, cfg.Consumer.Logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopAdmin()) }()
	err = worker.Run(ctx)
	switch what := fmt.Sprintf("topic %q, group %q", f.topic, f.group); {
	case errors.Is(err, consumer.ErrTopicMissing):
		return kafkaError(what, err)
	case err != nil:
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// consumer fills the runtime's configuration, having seen that the brokers
// answer, that the topics exist, and that the table fits them.
func (f *workerFlags) consumer(ctx context.Context, log *zap.Logger, metrics *prometheus.Registry) (cfg consumer.Config, closeTable func() error, err error) {
	client, err := f.kafka.connect(ctx, log)
	if err != nil {
		return cfg, nil, err
	}
	defer client.Close()
	topics := []string{f.topic}
	if f.policy.needsDeadLetters() {
		topics = append(topics, f.policy.deadLetterTopic(f.topic))
	}
	for _, topic := range topics {
		if _, err = topicPartitions(ctx, client, topic); err != nil {
			return cfg, nil, err
		}
	}
	opts, err := f.kafka.opts()
	if err != nil {
		return cfg, nil, err
	}
	cfg = consumer.Config{
		Group: f.group, Topics: []string{f.topic}, InstanceID: f.instance, ServerAssignor: f.assignor, SpreadWhales: f.spread, TenantMetrics: f.topTenants, Concurrency: f.concurrency, CommitInterval: f.commitInterval,
		DrainTimeout: f.drainTimeout, RebalanceTimeout: max(time.Minute, 2*f.drainTimeout),
		KafkaOpts: append(opts, sessionOpts(f.session)...), Logger: log,
	}
	if metrics != nil {
		cfg.Registerer = metrics
	}
	if f.start == "latest" {
		cfg.Start = consumer.StartLatest
	}
	if err = f.policy.apply(&cfg); err != nil {
		return cfg, nil, err
	}
	closeTable, err = f.openTable(ctx, client, log, &cfg)
	return cfg, closeTable, err
}

// openTable sets the table, if one is given.
func (f *workerFlags) openTable(ctx context.Context, client *kgo.Client, log *zap.Logger, cfg *consumer.Config) (closeTable func() error, err error) {
	if !f.table.given() {
		return func() error { return nil }, nil
	}
	table, err := f.table.open(ctx, log, opening{})
	if err != nil {
		return nil, err
	}
	_, err = pickTopic(table.Table(), f.topic)
	if err == nil {
		err = partitioner.CheckTopics(ctx, client, table.Table())
	}
	if err != nil {
		return nil, errors.Join(err, table.Close())
	}
	cfg.Table = table
	return table.Close, nil
}

// sessionOpts sets the session with the usual three heartbeats in it, and no
// more heartbeats than one in three seconds.
func sessionOpts(session time.Duration) []kgo.Opt {
	return []kgo.Opt{kgo.SessionTimeout(session), kgo.HeartbeatInterval(min(3*time.Second, session/3))}
}

// workerStats prints one line. A reader that is gone is no reason to stop.
func (e *env) workerStats(f *workerFlags, s deliver.Stats) {
	if f.output.json() {
		_ = e.printJSON(s)
		return
	}
	parked := ""
	if s.Parked > 0 {
		parked = fmt.Sprintf(", %d lanes parked", s.Parked)
	}
	_ = e.printf("%7s  %d handled, %.0f/s now, %d in flight, %d failed or put off, %d partitions%s\n",
		s.Elapsed.Truncate(time.Second), s.Handled, s.HandledPerSec, s.InFlight, s.Failed, s.Partitions, parked)
}
