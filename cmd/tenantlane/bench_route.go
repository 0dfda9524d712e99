package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tenantlane/tenantlane/internal/bench"
	"github.com/tenantlane/tenantlane/partitioner/routing"
)

func newBenchRouteCommand(e *env) *cobra.Command {
	var f benchFlags
	var cfg bench.RouteConfig
	var hash string
	cmd := &cobra.Command{
		Use:   "route",
		Short: "What a lookup costs, beside the partitioner that franz-go producers have today",
		Long: "Times a lookup through the Partitioner beside kgo.StickyKeyPartitioner, the way the client makes\n" +
			"them, in processor time of the thread. It needs no broker.",
		Example: "  tenantlane bench route\n" +
			"  tenantlane bench route --placements 0,10000,100000 --format json",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if cfg.Hash, err = routing.ParseHash(hash); err != nil {
				return usagef("--hash: %w", err)
			}
			return e.benchRoute(cmd.Context(), &f, cfg)
		},
	}
	flags := cmd.Flags()
	flags.IntSliceVar(&cfg.Placements, "placements", []int{0, 10_000}, "sizes of the tables to measure, in tenants that have a placement")
	flags.Int32Var(&cfg.Partitions, "partitions", 32, "partitions of the topic")
	flags.Int32Var(&cfg.Slots, "slots", 4096, "slots of the table")
	flags.StringVar(&hash, "hash", routing.XXHash64.String(), "hash of the table")
	flags.IntVar(&cfg.Lookups, "lookups", 1_000_000, "lookups of each side in a run")
	flags.IntVar(&cfg.Runs, "runs", 5, "runs whose median counts")
	atLeast(flags, 1, "partitions", "slots", "lookups", "runs")
	flags.StringVar(&f.tenants, "tenants", "", "file of tenant<TAB>volume lines (default: 4,033 built-in tenants)")
	f.register(flags)
	return cmd
}

func (e *env) benchRoute(ctx context.Context, f *benchFlags, cfg bench.RouteConfig) error {
	for _, n := range cfg.Placements {
		if n < 0 {
			return usagef("--placements: %d is negative", n)
		}
	}
	population, err := f.population()
	if err != nil {
		return err
	}
	for _, v := range population.Tenants {
		cfg.Tenants = append(cfg.Tenants, v.Tenant)
	}
	return e.profiled(f, func(told bench.Progress) error {
		cfg.Progress = told
		report, err := bench.Route(ctx, cfg)
		if err != nil {
			return err
		}
		return e.printBench(f, report, routeReportText(cfg, report))
	})
}

func routeReportText(cfg bench.RouteConfig, report bench.RouteReport) string {
	var text strings.Builder
	fmt.Fprintf(&text, "one lookup, processor time, median of %d runs of %d\n\n%12s %10s %10s %8s %8s %10s\n",
		cfg.Runs, cfg.Lookups, "placements", "bare", "tenantlane", "ratio", "allocs", "all placed")
	for _, t := range report.Tables {
		placed := "-"
		if t.AllHitNS > 0 {
			placed = fmt.Sprintf("%.1f ns", t.AllHitNS)
		}
		fmt.Fprintf(&text, "%12d %7.1f ns %7.1f ns %8.2f %8g %10s\n", t.Placements, t.BareNS, t.NS, t.Ratio, t.Allocs, placed)
	}
	return text.String()
}
