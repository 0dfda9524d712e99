package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v4"
)

// configFile is a parsed --config file. Its keys are flag names; a key at the
// top holds for every command that has the flag, one in a section named after
// a command only for that command, where it wins:
//
//	brokers: [kafka-1:9092, kafka-2:9092]
//	worker:
//	  concurrency: 100
//	topic:
//	  create: {partitions: 32}
type configFile struct {
	path    string
	entries map[string]configEntry // by path, such as "topic.create.partitions"
}

type configEntry struct {
	values []string
	list   bool
	line   int
}

// lookup finds the entry of a flag for cmd, the most specific section first.
func (f configFile) lookup(cmd *cobra.Command, flag string) (configEntry, bool) {
	section := strings.Split(cmd.CommandPath(), " ")[1:]
	for ; ; section = section[:len(section)-1] {
		if entry, ok := f.entries[strings.Join(append(slices.Clip(section), flag), ".")]; ok {
			return entry, true
		}
		if len(section) == 0 {
			return configEntry{}, false
		}
	}
}

// readConfig reads a config file and refuses keys that no command has, keys
// given twice, and values that are not scalars or lists of scalars.
func readConfig(path string, root *cobra.Command) (configFile, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return configFile{}, usagef("--config: %w", err)
	}
	return parseConfig(path, content, root)
}

func parseConfig(path string, content []byte, root *cobra.Command) (configFile, error) {
	file := configFile{path: path, entries: map[string]configEntry{}}
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	var document yaml.Node
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return file, nil
	} else if err != nil {
		return file, usagef("%s: not valid YAML: %w", path, err)
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return file, usagef("%s: wants one YAML document", path)
	}
	if len(document.Content) != 1 {
		return file, nil
	}
	return file, file.section(document.Content[0], root, "")
}

// section adds the keys of one mapping, which belong to cmd.
func (f configFile) section(node *yaml.Node, cmd *cobra.Command, prefix string) error {
	if node.Kind != yaml.MappingNode {
		return f.errorf(node, "wants keys and values")
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		if seen[key.Value] {
			return f.errorf(key, "key %q is given twice", prefix+key.Value)
		}
		seen[key.Value] = true
		if err := f.entry(key, value, cmd, prefix); err != nil {
			return err
		}
	}
	return nil
}

func (f configFile) entry(key, value *yaml.Node, cmd *cobra.Command, prefix string) error {
	name := key.Value
	if child := childCommand(cmd, name); child != nil && value.Kind == yaml.MappingNode {
		return f.section(value, child, prefix+name+".")
	}
	if !hasFlag(cmd, name) {
		return f.errorf(key, "unknown key %q", prefix+name)
	}
	entry := configEntry{line: key.Line}
	switch value.Kind {
	case yaml.ScalarNode:
		entry.values = []string{value.Value}
	case yaml.SequenceNode:
		entry.list = true
		for _, item := range value.Content {
			if item.Kind != yaml.ScalarNode {
				return f.errorf(item, "key %q wants a list of plain values", prefix+name)
			}
			entry.values = append(entry.values, item.Value)
		}
	default:
		return f.errorf(value, "key %q wants a plain value or a list of them", prefix+name)
	}
	f.entries[prefix+name] = entry
	return nil
}

func (f configFile) errorf(node *yaml.Node, format string, args ...any) error {
	return usagef("%s:%d: %s", f.path, node.Line, fmt.Sprintf(format, args...))
}

func childCommand(cmd *cobra.Command, name string) *cobra.Command {
	for _, child := range cmd.Commands() {
		if child.Name() == name {
			return child
		}
	}
	return nil
}

// hasFlag reports whether cmd or a command below it has the flag.
func hasFlag(cmd *cobra.Command, name string) bool {
	if name == configFlag || name == "help" {
		return false
	}
	found := false
	cmd.Flags().VisitAll(func(flag *pflag.Flag) { found = found || flag.Name == name })
	for _, child := range cmd.Commands() {
		found = found || hasFlag(child, name)
	}
	return found
}
