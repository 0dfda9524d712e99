package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"
)

// env is what a command may touch of the process: its streams and settings.
type env struct {
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
	getenv func(string) (string, bool)

	settings settings // of the command that runs, filled before its RunE
	started  bool     // a RunE was entered
}

// printJSON writes v as one line of JSON to stdout.
func (e *env) printJSON(v any) error {
	encoder := json.NewEncoder(e.stdout)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return fmt.Errorf("writing the answer: %w", err)
	}
	return nil
}

// printf writes to stdout.
func (e *env) printf(format string, args ...any) error {
	if _, err := fmt.Fprintf(e.stdout, format, args...); err != nil {
		return fmt.Errorf("writing the answer: %w", err)
	}
	return nil
}

// note writes a line for a person to stderr.
func (e *env) note(format string, args ...any) {
	fmt.Fprintf(e.stderr, format+"\n", args...)
}

// isTerminal reports whether a stream has a person at its other end.
func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(file.Fd())
}

const serviceAnnotation = "tenantlane/service"

// service marks a command that runs until it is stopped: after a clean drain
// SIGTERM ends it with 0 (see doc.go).
func service(cmd *cobra.Command) {
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[serviceAnnotation] = "true"
}

func isService(cmd *cobra.Command) bool {
	return cmd != nil && cmd.Annotations[serviceAnnotation] != ""
}
