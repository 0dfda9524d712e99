package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const (
	configFlag = "config"
	envPrefix  = "TENANTLANE_"

	secretAnnotation = "tenantlane/secret"
	envAnnotation    = "tenantlane/env"
)

// settings are the merged values of one command, sorted by name.
type settings []setting

// setting is one flag of a command after merging.
type setting struct {
	flag   *pflag.Flag
	source string // "flag", "env NAME", "file NAME:LINE" or "default"
}

// value is the merged value as text; a secret shows only whether it is set.
func (s setting) value() string {
	if isSecret(s.flag) && s.flag.Value.String() != "" {
		return "(hidden)"
	}
	return s.flag.Value.String()
}

// secret marks a flag whose value never appears in an output and is not taken
// from the command line, which every user of the machine can read.
func secret(flags *pflag.FlagSet, name string) {
	flag := flags.Lookup(name)
	flag.Hidden = true
	annotate(flag, secretAnnotation, "true")
}

// alsoFromEnv adds an environment variable, weaker than TENANTLANE_<FLAG>.
func alsoFromEnv(flags *pflag.FlagSet, name, variable string) {
	annotate(flags.Lookup(name), envAnnotation, variable)
}

func annotate(flag *pflag.Flag, key, value string) {
	if flag.Annotations == nil {
		flag.Annotations = map[string][]string{}
	}
	flag.Annotations[key] = append(flag.Annotations[key], value)
}

func isSecret(flag *pflag.Flag) bool { return len(flag.Annotations[secretAnnotation]) > 0 }

// resolveSettings gives every flag of cmd its value: command line, then
// environment, then config file, then default.
func resolveSettings(cmd *cobra.Command, getenv func(string) (string, bool)) (settings, error) {
	flags := allFlags(cmd)
	file, err := openConfig(cmd, flags, getenv)
	if err != nil {
		return nil, err
	}
	var merged settings
	var failed error
	flags.VisitAll(func(flag *pflag.Flag) {
		if failed != nil || flag.Name == "help" {
			return
		}
		source, err := resolveFlag(cmd, flag, file, getenv)
		if err == nil {
			err = checkValue(flag, source)
		}
		if err != nil {
			failed = err
			return
		}
		merged = append(merged, setting{flag, source})
	})
	return merged, failed
}

// checkValue refuses what a flag's type takes and no command means.
func checkValue(flag *pflag.Flag, source string) error {
	text := flag.Value.String()
	switch flag.Name {
	case "table", "table-topic":
		if source == "flag" && text == "" {
			return usagef("--%s: empty, as a variable of a shell may be that is not set", flag.Name)
		}
	case "connect-timeout":
		if d, err := time.ParseDuration(text); err == nil && d <= 0 {
			return usagef("--connect-timeout %s: must be above 0 (%s)", text, source)
		}
	}
	if flag.Value.Type() != "float64" {
		return nil
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil && (math.IsNaN(f) || math.IsInf(f, 0)) {
		return usagef("--%s: %s is not a finite number (%s)", flag.Name, text, source)
	}
	return nil
}

func openConfig(cmd *cobra.Command, flags *pflag.FlagSet, getenv func(string) (string, bool)) (configFile, error) {
	path := ""
	if flag := flags.Lookup(configFlag); flag != nil {
		if path = flag.Value.String(); !flag.Changed {
			path, _ = getenv(envPrefix + "CONFIG")
		}
	}
	if path == "" {
		return configFile{}, nil
	}
	return readConfig(path, cmd.Root())
}

// resolveFlag sets flag from its strongest source and names that source.
func resolveFlag(cmd *cobra.Command, flag *pflag.Flag, file configFile, getenv func(string) (string, bool)) (string, error) {
	if flag.Changed {
		if isSecret(flag) {
			return "", usagef("--%s: a command line is visible to everyone on this machine; use %s or --%s-file",
				flag.Name, envNames(flag)[0], flag.Name)
		}
		return "flag", nil
	}
	for _, name := range envNames(flag) {
		if value, ok := getenv(name); ok && value != "" {
			return "env " + name, setFlag(flag, name, []string{value}, false)
		}
	}
	if entry, ok := file.lookup(cmd, flag.Name); ok {
		where := fmt.Sprintf("%s:%d", file.path, entry.line)
		return "file " + where, setFlag(flag, fmt.Sprintf("%s: %s", where, flag.Name), entry.values, entry.list)
	}
	return "default", nil
}

// setFlag gives flag a value that did not come from the command line.
func setFlag(flag *pflag.Flag, where string, values []string, list bool) error {
	many, isList := flag.Value.(pflag.SliceValue)
	var err error
	switch {
	case list && !isList:
		return usagef("%s: wants one value, not a list", where)
	case list:
		err = many.Replace(slices.Clone(values))
	default:
		err = flag.Value.Set(values[0])
	}
	if err != nil {
		if isSecret(flag) {
			return usagef("%s: not a valid value", where)
		}
		return usagef("%s: invalid value %q: %w", where, strings.Join(values, ","), err)
	}
	flag.Changed = true // so that "required" and Changed see every source
	return nil
}

// envNames are the environment variables of a flag, strongest first.
func envNames(flag *pflag.Flag) []string {
	own := envPrefix + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))
	return append([]string{own}, flag.Annotations[envAnnotation]...)
}
