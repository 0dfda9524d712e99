package main

import (
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenantlane/tenantlane/rebalance/plan"
	"github.com/tenantlane/tenantlane/rebalance/plan/picture"
)

type sizeJSON struct {
	Partitions int      `json:"partitions"`
	Warnings   []string `json:"warnings"`
}

func newPlanSizeCommand(e *env) *cobra.Command {
	var output outputFlags
	var drawn pictureFlags
	var c plan.SizeConfig
	cmd := &cobra.Command{
		Use:   "size",
		Short: "How many partitions a load needs",
		Long: "partitions = max(minimum, ceil(peak / (60/p50 × concurrency) × headroom)), concurrency meaning\n" +
			"handlers at once per partition. Above 64 partitions, or one per 40 tenants, it suggests more\n" +
			"concurrency instead.",
		Example: "  tenantlane plan size --peak-per-minute 12000 --p50 400ms --concurrency 8",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if c.Concurrency < 1 || c.Minimum < 1 || c.Headroom < 1 {
				return usagef("--concurrency, --minimum and --headroom must be at least 1")
			}
			size, err := plan.Size(c)
			if err != nil {
				return usagef("%w", err)
			}
			return e.printSize(c, size, drawn, output.json())
		},
	}
	flags := cmd.Flags()
	flags.Float64Var(&c.PeakPerMinute, "peak-per-minute", 0, "highest rate to sustain, in records per minute")
	flags.DurationVar(&c.P50, "p50", 0, "median time that a handler takes, like 400ms")
	flags.IntVar(&c.Concurrency, "concurrency", 1, "handlers at once per partition")
	flags.Float64Var(&c.Headroom, "headroom", 1.5, "factor for growth and uneven tenants")
	flags.IntVar(&c.Minimum, "minimum", 8, "least number of partitions")
	flags.IntVar(&c.Tenants, "tenants", 0, "number of tenants, for the warning above one partition per 40 (default: unknown)")
	require(cmd, "peak-per-minute", "p50")
	output.register(flags)
	drawn.register(flags)
	return cmd
}

// pictured are the concurrencies that the picture compares.
func pictured(chosen int) []int {
	ks := []int{1, 2, 4, 8, 16, 32, 64}
	if !slices.Contains(ks, chosen) {
		ks = append(ks, chosen)
	}
	return ks
}

func (e *env) printSize(c plan.SizeConfig, size plan.SizeReport, drawn pictureFlags, asJSON bool) error {
	chart := picture.Sizes(plan.SizeByConcurrency(c, pictured(c.Concurrency)), c.Concurrency)
	if err := drawn.draw(e, chart, !asJSON); err != nil {
		return err
	}
	if asJSON {
		return e.printJSON(sizeJSON{size.Partitions, size.Warnings})
	}
	if err := e.printf("\n%d partitions carry %v records a minute of %v each at concurrency %d\n",
		size.Partitions, c.PeakPerMinute, c.P50.Round(time.Microsecond), c.Concurrency); err != nil {
		return err
	}
	for _, w := range size.Warnings {
		if err := e.printf("warning: %s\n", w); err != nil {
			return err
		}
	}
	return nil
}

// require makes flags of a command necessary, from any source.
func require(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // a misspelled flag in this program
		}
	}
}
