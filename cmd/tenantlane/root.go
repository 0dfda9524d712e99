package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// newRootCommand is the whole tree of commands. Each lives in its own file.
func newRootCommand(e *env) *cobra.Command {
	root := group("tenantlane", "Tenant lanes on Kafka",
		newDemoCommand(e),
		newRouteCommand(e),
		newPlanCommand(e),
		newTableCommand(e),
		newTenantCommand(e),
		newMoveCommand(e),
		newBrokerCommand(e),
		newLoadgenCommand(e),
		newWorkerCommand(e),
		newLanesCommand(e),
		newDLQCommand(e),
		newStaleCommand(e),
		newVerifyCommand(e),
		newBenchCommand(e),
		newLagwatchCommand(e),
		newTopCommand(e),
		group("topic", "Make topics, and give them more partitions", newTopicCreateCommand(e), newTopicGrowCommand(e)),
		newConfigCommand(e),
		newVersionCommand(e),
		newCompletionCommand(e),
	)
	root.Long = "TenantLane gives each tenant of a Kafka topic a lane: producers map tenants onto fixed\n" +
		"partitions from one routing table, workers handle lanes concurrently but each in order,\n" +
		"and a watcher pages when one partition falls behind, naming the tenant that did it."
	root.PersistentFlags().String(configFlag, "", "YAML file with settings, weaker than flags and environment")
	root.SilenceErrors = true
	root.SilenceUsage = true
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(flagError)
	root.SetIn(e.stdin)
	root.SetOut(e.stdout)
	root.SetErr(e.stderr)
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) (err error) {
		e.settings, err = resolveSettings(cmd, e.getenv)
		return err
	}
	markStarted(e, root)
	return root
}

// flagError says more of a flag that a person expects where it would do nothing.
func flagError(cmd *cobra.Command, err error) error {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok || unknown.GetSpecifiedName() != "table" || cmd.Flags().Lookup("table-topic") == nil {
		return err
	}
	return usagef("%w: a file holds neither moves nor history, so this takes a table in a topic, --table-topic NAME; "+
		"`tenantlane table push FILE --table-topic NAME --create` puts a file's table there", err)
}

const groupAnnotation = "tenantlane/group"

// group makes a command that only holds sub-commands: without one, or with an
// unknown one, it is a usage error that lists them.
func group(name, short string, children ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: name, Short: short, Args: cobra.ArbitraryArgs, Annotations: map[string]string{groupAnnotation: "true"}}
	cmd.AddCommand(children...)
	cmd.SuggestionsMinimumDistance = 2
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 && !cmd.HasParent() {
			return cmd.Help()
		}
		names := make([]string, 0, len(children))
		for _, child := range cmd.Commands() {
			if child.IsAvailableCommand() {
				names = append(names, child.Name())
			}
		}
		if len(args) == 0 {
			return usagef("needs one of: %s", strings.Join(names, ", "))
		}
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			return usagef("unknown command %q, did you mean %s?", args[0], strings.Join(near, " or "))
		}
		return usagef("unknown command %q, there is: %s", args[0], strings.Join(names, ", "))
	}
	return cmd
}

// markStarted lets run tell an error of a command from an error before it.
func markStarted(e *env, cmd *cobra.Command) {
	if inner := cmd.RunE; inner != nil && cmd.Annotations[groupAnnotation] == "" {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			e.started = true
			return inner(cmd, args)
		}
	}
	for _, child := range cmd.Commands() {
		markStarted(e, child)
	}
}

// allFlags is every flag of cmd, its own and inherited.
func allFlags(cmd *cobra.Command) *pflag.FlagSet {
	set := pflag.NewFlagSet(cmd.Name(), pflag.ContinueOnError)
	set.AddFlagSet(cmd.LocalFlags())
	set.AddFlagSet(cmd.InheritedFlags())
	return set
}
