package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
)

// secretFlag is a secret from TENANTLANE_<NAME>, from the config file, or from a
// file that --NAME-file names.
type secretFlag struct{ name, value, file string }

// register adds both flags; what is it that the file holds.
func (s *secretFlag) register(flags *pflag.FlagSet, name, what string) {
	s.name = name
	flags.StringVar(&s.value, name, "", fmt.Sprintf("%s; only from %s or the config file", what, s.variable()))
	flags.StringVar(&s.file, name+"-file", "", fmt.Sprintf("file that holds the %s (or set %s)", what, s.variable()))
	secret(flags, name)
}

func (s *secretFlag) variable() string { return envNames(&pflag.Flag{Name: s.name})[0] }

func (s *secretFlag) given() bool { return s.value != "" || s.file != "" }

// read takes the secret from its value or its file, without the newline that
// editors leave at the end.
func (s *secretFlag) read() (string, error) {
	value := s.value
	if value != "" && s.file != "" {
		return "", usagef("--%s-file: %s is set too, give only one", s.name, s.variable())
	}
	if s.file != "" {
		content, err := os.ReadFile(s.file)
		if err != nil {
			return "", usagef("--%s-file: %w", s.name, err)
		}
		value = strings.TrimRight(string(content), "\r\n")
	}
	if value == "" {
		return "", usagef("--%s-file: missing or empty; or set %s", s.name, s.variable())
	}
	return value, nil
}

// optional is read for a secret that may be absent. A file that is empty stays
// an error: it would open what the secret closes.
func (s *secretFlag) optional() (string, error) {
	if !s.given() {
		return "", nil
	}
	return s.read()
}
