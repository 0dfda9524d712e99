package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

type settingLine struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Source string `json:"source"`
}

func newConfigCommand(e *env) *cobra.Command {
	return group("config", "Look at the configuration", newConfigPrintCommand(e))
}

func newConfigPrintCommand(e *env) *cobra.Command {
	var output outputFlags
	var kafka kafkaFlags
	cmd := &cobra.Command{
		Use:   "print [-- COMMAND [FLAGS]]",
		Short: "Show the merged settings and where each value comes from",
		Long: "Shows the settings that a command would run with and the source of each value: flag, env,\n" +
			"file or default. Without a command: what it takes to reach Kafka. Secrets are hidden.",
		Example: "  tenantlane config print\n" +
			"  tenantlane config print --config tenantlane.yaml -- worker --concurrency 50",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			merged := e.settings
			if len(args) > 0 {
				var err error
				if merged, err = e.settingsOf(cmd, args); err != nil {
					return err
				}
			}
			return e.printSettings(merged, output.json())
		},
	}
	output.register(cmd.Flags())
	kafka.register(cmd.Flags())
	return cmd
}

// settingsOf merges the settings of another command, which is not run.
func (e *env) settingsOf(printer *cobra.Command, args []string) (settings, error) {
	target, rest, err := printer.Root().Find(args)
	if err != nil {
		return nil, usagef("%w", err)
	}
	if target.Annotations[groupAnnotation] != "" {
		return nil, usagef("%q is not a command that runs", args)
	}
	if config := printer.Flag(configFlag); config.Changed {
		rest = append([]string{"--" + configFlag + "=" + config.Value.String()}, rest...)
	}
	if err := target.ParseFlags(rest); err != nil {
		return nil, usagef("%s: %w", target.CommandPath(), err)
	}
	return resolveSettings(target, e.getenv)
}

func (e *env) printSettings(merged settings, asJSON bool) error {
	lines := make([]settingLine, 0, len(merged))
	for _, s := range merged {
		lines = append(lines, settingLine{s.flag.Name, s.value(), s.source})
	}
	if asJSON {
		return e.printJSON(map[string][]settingLine{"settings": lines})
	}
	table := tabwriter.NewWriter(e.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tVALUE\tSOURCE")
	for _, line := range lines {
		fmt.Fprintf(table, "%s\t%s\t%s\n", line.Name, line.Value, line.Source)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("writing the answer: %w", err)
	}
	return nil
}
