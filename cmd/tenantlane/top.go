package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenantlane/tenantlane/consumer"
	"github.com/tenantlane/tenantlane/consumer/admin"
	"github.com/tenantlane/tenantlane/internal/top"
	"github.com/tenantlane/tenantlane/lagwatch"
)

// topInterval is how often top looks: a person watches.
const topInterval = 2 * time.Second

type topFlags struct {
	watch lagwatchFlags
	lanes lanesFlags
	once  bool
}

func newTopCommand(e *env) *cobra.Command {
	var f topFlags
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch tenants, partitions and alerts live on a terminal",
		Long: "Shows what lagwatch sees and judges, and with --admin what tenants do at workers, again and again. It tells\n" +
			"nobody else. Keys: q quits, left and right change the pool, s sorts, space holds the picture still.\n" +
			"With --once it looks once and prints that, for scripts and for terminals that cannot be drawn on.",
		Example: "  tenantlane top --brokers kafka:9092 --group billing --admin http://127.0.0.1:9400\n" +
			"  tenantlane top --once --brokers kafka:9092",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.once {
				return e.topOnce(cmd.Context(), &f)
			}
			return e.top(cmd.Context(), &f)
		},
	}
	flags := cmd.Flags()
	f.watch.registerSight(flags)
	f.watch.logs.level = "error" // the screen is no place for logs
	f.watch.rule.Interval = topInterval
	flags.Lookup("interval").DefValue = topInterval.String()
	f.lanes.registerWorkers(flags)
	flags.BoolVar(&f.once, "once", false, "look once, print what was seen, and end")
	return cmd
}

// topOnce prints one picture.
func (e *env) topOnce(ctx context.Context, f *topFlags) (err error) {
	w, done, err := f.watch.watcher(ctx, e)
	defer func() { err = errors.Join(err, done()) }()
	if err != nil {
		return err
	}
	seen, err := w.Once(ctx)
	if err != nil {
		return err
	}
	return e.printf("%s\n", top.Render(f.snapshot(ctx, seen), top.View{Width: math.MaxInt32, Plain: true}))
}

// top draws until it is asked to end.
func (e *env) top(ctx context.Context, f *topFlags) (err error) {
	in, terminal := e.stdin.(*os.File)
	if !terminal || !isTerminal(e.stdin) || !isTerminal(e.stdout) {
		return usagef("needs a terminal; --once prints one picture, and `tenantlane lagwatch --format json` is for programs")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cfg, done, err := f.watch.config(ctx, e)
	defer func() { err = errors.Join(err, done()) }()
	if err != nil {
		return err
	}
	feed := make(chan *top.Snapshot)
	cfg.OnEvaluation = func(seen *lagwatch.Evaluation) {
		select {
		case feed <- f.snapshot(ctx, seen):
		case <-ctx.Done():
		}
	}
	w, err := lagwatch.New(cfg)
	if err != nil {
		return usagef("%w", err)
	}
	var watching sync.WaitGroup
	var watched error
	watching.Go(func() {
		watched = w.Run(ctx)
		cancel()
	})
	quit, err := top.Run(ctx, top.Config{In: in, Out: e.stdout, Feed: feed})
	interrupted := ctx.Err() != nil && watched == nil && !quit
	cancel()
	watching.Wait()
	if err == nil && watched == nil && interrupted {
		return context.Canceled
	}
	return errors.Join(err, watched)
}

// snapshot adds what workers say of their tenants.
func (f *topFlags) snapshot(ctx context.Context, seen *lagwatch.Evaluation) *top.Snapshot {
	s := &top.Snapshot{At: seen.At, Seen: seen, Workers: len(f.lanes.workers)}
	if s.Workers == 0 {
		return s
	}
	ctx, cancel := context.WithTimeout(ctx, topInterval)
	defer cancel()
	err := f.lanes.ask(ctx, func(worker string, c *admin.Client) error {
		tenants, err := c.Tenants(ctx, consumer.TenantFilter{Most: 200})
		for i := range tenants {
			s.Tenants = append(s.Tenants, topTenant(worker, &tenants[i]))
		}
		return err
	})
	if err != nil {
		s.Problems = append(s.Problems, err.Error())
	}
	return s
}

func topTenant(worker string, t *admin.Tenant) top.Tenant {
	row := top.Tenant{
		Worker: worker, Name: t.Tenant, State: t.State, Depth: t.Depth, Skipped: t.Skipped, Running: t.InFlight, Rate: t.Rate, ETA: -1,
	}
	if t.TenantHex != "" {
		row.Name = fmt.Sprintf("0x%s", t.TenantHex)
	}
	if t.ETAS != nil {
		row.ETA = time.Duration(*t.ETAS * float64(time.Second))
	}
	return row
}
