package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const projectRoot = "../.."

// The README's Go is quoted from Examples, which compile and run.
func TestReadmeQuotesExamples(t *testing.T) {
	examples := withoutIndent(exampleSources(t))
	blocks := readmeBlocks(t, "go")
	if len(blocks) < 3 {
		t.Fatalf("%d blocks of Go in the README, want the producer's, the worker's and the handler's", len(blocks))
	}
	for _, block := range blocks {
		if !strings.Contains(examples, withoutIndent(block)) {
			t.Errorf("no Example holds this block of the README:\n%s", block)
		}
	}
}

// Every command line in the README names a command and flags that exist.
func TestReadmeCommandsParse(t *testing.T) {
	var checked int
	for _, block := range readmeBlocks(t, "sh") {
		for line := range strings.Lines(block) {
			line, _, _ = strings.Cut(strings.TrimSpace(line), " #")
			line = strings.TrimPrefix(line, "go run ./cmd/")
			args := strings.Fields(line)
			if len(args) == 0 || args[0] != "tenantlane" {
				continue
			}
			checked++
			if err := parses(args[1:]); err != nil {
				t.Errorf("%s: %v", line, err)
			}
		}
	}
	if checked < 10 {
		t.Errorf("%d command lines in the README, want at least 10", checked)
	}
}

// A table in the README is one that Parse takes.
func TestReadmeTablesAreValid(t *testing.T) {
	blocks := readmeBlocks(t, "yaml")
	if len(blocks) == 0 {
		t.Fatal("no table in the README")
	}
	for _, block := range blocks {
		runArgs(t, "table", "check", "--table", tempFile(t, "routing.yaml", block)).wantDone(t)
	}
}

// parses finds the command, parses its flags and checks its arguments, and runs
// nothing.
func parses(args []string) error {
	root := newRootCommand(&env{})
	cmd, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	if cmd.Annotations[groupAnnotation] != "" {
		return usagef("needs a sub-command")
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}

// readmeBlocks are the README's code blocks in one language.
func readmeBlocks(t *testing.T, language string) []string {
	t.Helper()
	readme, err := os.ReadFile(filepath.Join(projectRoot, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(string(readme), -1) {
		blocks = append(blocks, m[1])
	}
	return blocks
}

func exampleSources(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, room := range []string{"partitioner", "partitioner/store", "consumer", "rebalance", "lagwatch"} {
		files, err := filepath.Glob(filepath.Join(projectRoot, room, "*example*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(source)
		}
	}
	return all.String()
}

func withoutIndent(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.TrimSpace(line))
	}
	return strings.Join(lines, "\n")
}
