package main

import (
	"github.com/spf13/cobra"

	"github.com/tenantlane/tenantlane/rebalance/plan"
	"github.com/tenantlane/tenantlane/rebalance/plan/picture"
)

type hashJSON struct {
	HottestShare float64   `json:"hottest_share"`
	Counts       []float64 `json:"counts"`
}

func newPlanHashCommand(e *env) *cobra.Command {
	var output outputFlags
	var drawn pictureFlags
	var keys populationFlags
	var hash hashFlag
	var tenantOf tenantRuleFlag
	var partitions int32
	cmd := &cobra.Command{
		Use:   "hash",
		Short: "How evenly candidate keys spread over partitions",
		Long: "Spreads keys by the remainder of their hash, as a client without a table does, and says what share\n" +
			"the hottest partition takes. Repeats of a key count.",
		Example: "  tenantlane plan hash --keys users.txt --hash sha256-64 --partitions 8\n" +
			"  tenantlane plan hash --from-topic orders --tenant-of header:country --partitions 8",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !keys.given() {
				return usagef("no keys: give --keys FILE, or --from-topic T")
			}
			volumes, err := keys.load(cmd.Context(), e, tenantOf.value)
			if err != nil {
				return err
			}
			r, err := plan.HashSkew(volumes, hash.value, partitions)
			if err != nil {
				return usagef("%w", err)
			}
			if err := drawn.draw(e, picture.Hash(picture.Tenant(keys.name()), r), !output.json()); err != nil || !output.json() {
				return err
			}
			return e.printJSON(hashJSON{r.HottestShare, r.Counts})
		},
	}
	flags := cmd.Flags()
	keys.register(flags, "keys")
	flags.Int32Var(&partitions, "partitions", 0, "partitions to spread over")
	require(cmd, "partitions")
	hash.register(flags)
	tenantOf.register(flags)
	output.register(flags)
	drawn.register(flags)
	return cmd
}
