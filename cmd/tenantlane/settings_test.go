package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// printed runs config print and returns value and source by name.
func printed(t *testing.T, args ...string) map[string]settingLine {
	t.Helper()
	got := runArgs(t, append([]string{"config", "print", "--format", "json"}, args...)...)
	got.wantDone(t)
	var answer struct{ Settings []settingLine }
	if err := json.Unmarshal([]byte(got.stdout), &answer); err != nil {
		t.Fatalf("stdout %q: %v", got.stdout, err)
	}
	lines := map[string]settingLine{}
	for _, line := range answer.Settings {
		lines[line.Name] = line
	}
	return lines
}

func TestFlagsBeatEnvironmentBeatsFileBeatsDefault(t *testing.T) {
	file := tempFile(t, "tl.yaml", "brokers: [file-1:9092, file-2:9092]\nclient-id: from-file\nconfig:\n  print:\n    sasl-user: in-section\nsasl-user: at-top\n")
	t.Setenv("TENANTLANE_CONFIG", file)

	t.Run("file", func(t *testing.T) {
		lines := printed(t)
		if got := lines["brokers"]; got.Value != "[file-1:9092,file-2:9092]" || !strings.HasSuffix(got.Source, "tl.yaml:1") {
			t.Errorf("brokers: %+v", got)
		}
		if got := lines["sasl-user"]; got.Value != "in-section" || !strings.HasSuffix(got.Source, "tl.yaml:5") {
			t.Errorf("sasl-user: %+v, want the section's", got)
		}
		if got := lines["connect-timeout"]; got.Value != "10s" || got.Source != "default" {
			t.Errorf("connect-timeout: %+v", got)
		}
	})
	t.Run("KAFKA_BROKERS", func(t *testing.T) {
		t.Setenv("KAFKA_BROKERS", "kafka:1")
		if got := printed(t)["brokers"]; got.Value != "[kafka:1]" || got.Source != "env KAFKA_BROKERS" {
			t.Errorf("brokers: %+v", got)
		}
		t.Setenv("TENANTLANE_BROKERS", "own:1,own:2")
		if got := printed(t)["brokers"]; got.Value != "[own:1,own:2]" || got.Source != "env TENANTLANE_BROKERS" {
			t.Errorf("brokers: %+v", got)
		}
		if got := printed(t, "--brokers", "flag:1")["brokers"]; got.Value != "[flag:1]" || got.Source != "flag" {
			t.Errorf("brokers: %+v", got)
		}
	})
	t.Run("another command", func(t *testing.T) {
		lines := printed(t, "--", "version", "--format=json")
		if got := lines["format"]; got.Value != "json" || got.Source != "flag" {
			t.Errorf("format: %+v", got)
		}
		if _, ok := lines["brokers"]; ok {
			t.Error("version has no brokers")
		}
	})
}

func TestSecretsAreHidden(t *testing.T) {
	t.Setenv("TENANTLANE_SASL_PASSWORD", "hunter2")
	for _, format := range []string{"text", "json"} {
		got := runArgs(t, "config", "print", "--format", format)
		got.wantDone(t)
		if strings.Contains(got.stdout, "hunter2") || !strings.Contains(got.stdout, "(hidden)") {
			t.Errorf("%s: %s", format, got.stdout)
		}
	}
}

func TestBadConfigFilesAreNamedByLineAndKey(t *testing.T) {
	for _, c := range []struct {
		name, yaml string
		parts      []string
	}{
		{"unknown key", "brokers: a:1\nbrokrs: b:1\n", []string{"tl.yaml:2", `unknown key "brokrs"`}},
		{"unknown key in a section", "config:\n  print:\n    nope: 1\n", []string{"tl.yaml:3", `"config.print.nope"`}},
		{"flag of another command", "version:\n  brokers: a:1\n", []string{"tl.yaml:2", `"version.brokers"`}},
		{"twice", "brokers: a:1\nbrokers: b:1\n", []string{"tl.yaml", "brokers"}},
		{"a mapping for a value", "brokers: {a: 1}\n", []string{"tl.yaml:1", "brokers"}},
		{"a list for one value", "client-id: [a, b]\n", []string{"tl.yaml:1", "client-id", "not a list"}},
		{"wrong type", "connect-timeout: soon\n", []string{"tl.yaml:1", "connect-timeout", "soon"}},
		{"not a mapping", "- a\n", []string{"tl.yaml:1", "keys and values"}},
		{"not YAML", "a: [\n", []string{"tl.yaml", "not valid YAML"}},
		{"two documents", "brokers: a:1\n---\nbrokers: b:1\n", []string{"one YAML document"}},
		{"itself", "config: other.yaml\n", []string{"tl.yaml:1", "config"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := tempFile(t, "tl.yaml", c.yaml)
			runArgs(t, "config", "print", "--config", file).wantError(t, exitUsage, c.parts...)
		})
	}
}

// A command that takes such a value would do nothing for good, or another thing
// than was meant.
func TestValuesThatNoCommandMeansAreRefused(t *testing.T) {
	for _, c := range []struct {
		args  []string
		parts []string
	}{
		{[]string{"loadgen", "--rate", "NaN"}, []string{"--rate", "NaN", "finite"}},
		{[]string{"dlq", "replay", "--rate", "inf"}, []string{"--rate", "Inf", "finite"}},
		{[]string{"lagwatch", "--ratio", "NaN"}, []string{"--ratio", "finite"}},
		{[]string{"top", "--critical-ratio", "-Inf"}, []string{"--critical-ratio", "finite"}},
		{[]string{"verify", "--connect-timeout", "0"}, []string{"--connect-timeout", "above 0"}},
		{[]string{"lagwatch", "--connect-timeout", "-1s"}, []string{"--connect-timeout", "above 0"}},
		{[]string{"worker", "--table", ""}, []string{"--table", "empty"}},
		{[]string{"loadgen", "--table-topic="}, []string{"--table-topic", "empty"}},
	} {
		runArgs(t, c.args...).wantError(t, exitUsage, c.parts...)
	}
	file := tempFile(t, "tl.yaml", "lagwatch: {ratio: .nan}\n")
	runArgs(t, "lagwatch", "--config", file).wantError(t, exitUsage, "ratio")
}

func TestEmptyConfigFileIsFine(t *testing.T) {
	for _, content := range []string{"", "# nothing\n"} {
		runArgs(t, "config", "print", "--config", tempFile(t, "tl.yaml", content)).wantDone(t)
	}
}

func FuzzConfigFile(f *testing.F) {
	f.Add([]byte("brokers: [a, b]\nconfig: {print: {format: json}}\n"))
	f.Add([]byte("a: &a [1]\nb: *a\n"))
	root := newRootCommand(&env{getenv: func(string) (string, bool) { return "", false }})
	f.Fuzz(func(t *testing.T, content []byte) {
		file, err := parseConfig("f", content, root)
		if err != nil && oneLine(err) == "" {
			t.Error("an error without text")
		}
		for key, entry := range file.entries {
			if !entry.list && len(entry.values) != 1 {
				t.Errorf("%s: %d values", key, len(entry.values))
			}
		}
	})
}
