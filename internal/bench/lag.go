package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/tenantlane/tenantlane/lagwatch"
)

// LagConfig says how large a cluster lagwatch looks at.
type LagConfig struct {
	// KafkaOpts reach the cluster.
	KafkaOpts []kgo.Opt
	// Groups that each commit every partition; 200 by default.
	Groups int
	// Partitions of the topic that they all read; 320 by default.
	Partitions int32
	// Rounds that are measured, after two that are not; 11 by default.
	Rounds int
	// Replicas of the topic; the cluster's default if 0.
	Replicas int16
	// Progress is told of each round that is done.
	Progress Progress
}

func (c LagConfig) withDefaults() LagConfig {
	c.Groups, c.Partitions = cmp.Or(c.Groups, 200), cmp.Or(c.Partitions, 320)
	c.Rounds, c.Replicas = cmp.Or(c.Rounds, 11), cmp.Or(c.Replicas, -1)
	return c
}

func (c LagConfig) validate() error {
	if c.Groups < 1 || c.Partitions < 1 || c.Rounds < 1 {
		return errors.New("Groups, Partitions and Rounds must be at least 1")
	}
	return nil
}

// LagReport is what a round of lagwatch costs; medians of the rounds.
type LagReport struct {
	Groups     int   `json:"groups"`
	Partitions int32 `json:"partitions"`
	Series     int   `json:"series"`
	// Sample is the time from the first question to the last answer, Decide
	// from there to the evaluation.
	SampleMillis float64 `json:"sample_ms"`
	DecideMillis float64 `json:"decide_ms"`
	// CPUSeconds is the process's, per round, the client's work included.
	CPUSeconds float64 `json:"cpu_s"`
	// Requests and Bytes (read) are per round.
	Requests int   `json:"requests"`
	Bytes    int64 `json:"bytes"`
	// HeapBytes is the heap that is live afterwards.
	HeapBytes uint64 `json:"heap_bytes"`
	// Unknown must be 0, else the figures are of a cluster half seen.
	Unknown int `json:"unknown_partitions"`
}

// Lag makes a topic and groups that commit to it, measures rounds of lagwatch,
// and removes both.
func Lag(ctx context.Context, cfg LagConfig) (report LagReport, err error) {
	cfg = cfg.withDefaults()
	if err = cfg.validate(); err != nil {
		return LagReport{}, fmt.Errorf("bench lag: %w", err)
	}
	name := "tenantlane-bench-" + strconv.FormatUint(rand.Uint64(), 36)
	remove, err := makeTopic(ctx, ProduceConfig{KafkaOpts: cfg.KafkaOpts, Partitions: cfg.Partitions}, cfg.Replicas, name)
	if err != nil {
		return LagReport{}, fmt.Errorf("bench lag: %w", err)
	}
	defer func() { err = errors.Join(err, remove()) }()
	forget, err := makeGroups(ctx, cfg, name)
	defer func() { err = errors.Join(err, forget()) }()
	if err != nil {
		return LagReport{}, fmt.Errorf("bench lag: %w", err)
	}
	return measureLag(ctx, cfg, name)
}

// makeGroups commits every partition for every group.
func makeGroups(ctx context.Context, cfg LagConfig, topic string) (forget func() error, err error) {
	client, err := kgo.NewClient(cfg.KafkaOpts...)
	if err != nil {
		return func() error { return nil }, err
	}
	admin := kadm.NewClient(client)
	names := make([]string, cfg.Groups)
	forget = func() error {
		defer client.Close()
		deleting, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		_, err := admin.DeleteGroups(deleting, names...)
		return err
	}
	commits := kadm.Offsets{}
	for p := range cfg.Partitions {
		commits.AddOffset(topic, p, 0, -1)
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%d", topic, i)
		g.Go(func() error {
			err := retry(gctx, func() error { return admin.CommitAllOffsets(gctx, names[i], commits) })
			if err != nil {
				return fmt.Errorf("commit of group %s: %w", names[i], err)
			}
			return nil
		})
	}
	return forget, g.Wait()
}

// retry gives a cluster half a minute to know a topic that was just made.
func retry(ctx context.Context, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-tick.C:
		}
	}
}

// traffic counts what a client sends and receives.
type traffic struct{ requests, bytes atomic.Int64 }

// OnBrokerWrite implements kgo.HookBrokerWrite.
func (t *traffic) OnBrokerWrite(kgo.BrokerMetadata, int16, int, time.Duration, time.Duration, error) {
	t.requests.Add(1)
}

// OnBrokerRead implements kgo.HookBrokerRead.
func (t *traffic) OnBrokerRead(_ kgo.BrokerMetadata, _ int16, bytesRead int, _, _ time.Duration, _ error) {
	t.bytes.Add(int64(bytesRead))
}

var (
	_ kgo.HookBrokerWrite = (*traffic)(nil)
	_ kgo.HookBrokerRead  = (*traffic)(nil)
)

func measureLag(ctx context.Context, cfg LagConfig, name string) (LagReport, error) {
	var seen traffic
	w, err := lagwatch.New(lagwatch.Config{
		KafkaOpts: append(slices.Clip(cfg.KafkaOpts), kgo.WithHooks(&seen)),
		Groups:    []string{name + "-*"}, SampleTimeout: 30 * time.Second,
	})
	if err != nil {
		return LagReport{}, err
	}
	const warm = 4 // the first rounds open connections and ask for the past
	report := LagReport{Groups: cfg.Groups, Partitions: cfg.Partitions}
	var sample, decide, cpu, requests, bytes []float64
	var heap runtime.MemStats
	n, cpuAt := 0, processTime()
	err = w.Look(ctx, warm+cfg.Rounds, func(r lagwatch.Round) {
		now := processTime()
		if n++; n > warm {
			report.Unknown += r.Evaluation.Unknown
			sample = append(sample, r.Sampling.Seconds()*1000)
			decide = append(decide, r.Deciding.Seconds()*1000)
			cpu = append(cpu, (now - cpuAt).Seconds())
			requests = append(requests, float64(seen.requests.Load()))
			bytes = append(bytes, float64(seen.bytes.Load()))
		}
		report.Series = 0
		for i := range r.Evaluation.Groups {
			report.Series += len(r.Evaluation.Groups[i].Partitions)
		}
		seen.requests.Store(0)
		seen.bytes.Store(0)
		cfg.Progress.tell(n, warm+cfg.Rounds)
		cpuAt = processTime()
	})
	if err != nil {
		return LagReport{}, err
	}
	runtime.GC()
	runtime.ReadMemStats(&heap)
	runtime.KeepAlive(w)
	report.SampleMillis, report.DecideMillis, report.CPUSeconds = median(sample), median(decide), median(cpu)
	report.Requests, report.Bytes, report.HeapBytes = int(median(requests)), int64(median(bytes)), heap.HeapAlloc
	return report, nil
}
