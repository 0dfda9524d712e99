package main

import (
	"github.com/spf13/cobra"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

type pushJSON struct {
	Revision uint64 `json:"revision"`
	diffJSON
}

func newTablePushCommand(e *env) *cobra.Command {
	var output outputFlags
	var f changeFlags
	cmd := &cobra.Command{
		Use:   "push FILE",
		Short: "Make the live table say what a file says",
		Long: "Reads FILE and gives the live table its content, with the live table's next revision and epochs. What\n" +
			"would re-route a live tenant is refused, and so is a change of what is fixed once a topic has records.\n" +
			"A topic that is new to the table is taken to lie as its hash alone sends it. Where there is no table yet, FILE\n" +
			"is taken with its revision and epochs: so a table whose topic was lost comes back as it was.",
		Example: "  tenantlane table push edited.yaml --table routing.yaml\n" +
			"  tenantlane table push routing.yaml --table-topic tenantlane.routing --create",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			wanted, err := (&tableFlags{file: args[0]}).read(cmd.Context())
			if err != nil {
				return err
			}
			before, after, err := f.change(cmd, args, func(_ tableStore, t *routing.Table) (*routing.Table, error) {
				return routing.Rebase(t, wanted.Spec())
			})
			if after == nil {
				return err
			}
			if printed := e.printPush(before, after, output.json()); printed != nil {
				return printed
			}
			return err
		},
	}
	f.register(cmd.Flags())
	f.how.empty = true
	cmd.Flags().BoolVar(&f.how.create, "create", false, "with --table-topic: make the topics of the table that are missing")
	output.register(cmd.Flags())
	return cmd
}

func (e *env) printPush(before, after *routing.Table, asJSON bool) error {
	answer := diffAnswer(before, after)
	if asJSON {
		return e.printJSON(pushJSON{after.Revision(), answer})
	}
	if err := e.printDiff(answer); err != nil {
		return err
	}
	return e.printf("table revision %d\n", after.Revision())
}
