package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
)

// run is the whole command line as a function: it executes args and returns
// the exit code. Canceling ctx is an interrupt.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	e := &env{stdin: stdin, stdout: stdout, stderr: stderr, getenv: os.LookupEnv}
	root := newRootCommand(e) //nolint:contextcheck // cobra hands ctx to the command that runs
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	code := exitCode(ctx, cmd, e.started, err)
	if err != nil {
		fmt.Fprintf(stderr, "%s: %s%s\n", cmd.CommandPath(), errorText(ctx, code, err), helpHint(cmd, e.started, code))
	}
	return code
}

// errorText is what the one line of an error says.
func errorText(ctx context.Context, code int, err error) string {
	if code == exitInterrupted && ctx.Err() != nil {
		return "interrupted"
	}
	return oneLine(err)
}

// helpHint points at --help for an error in the command line itself.
func helpHint(cmd *cobra.Command, started bool, code int) string {
	if code != exitUsage || started {
		return ""
	}
	if cmd.Args != nil && cmd.ValidateArgs(cmd.Flags().Args()) != nil {
		return fmt.Sprintf("; usage: %s; see `%s --help`", cmd.UseLine(), cmd.CommandPath())
	}
	return fmt.Sprintf("; see `%s --help`", cmd.CommandPath())
}
