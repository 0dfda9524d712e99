package main

import (
	"encoding/hex"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/spf13/pflag"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// outputFlags is --format text|json.
type outputFlags struct{ format string }

func (o *outputFlags) register(flags *pflag.FlagSet) {
	o.format = "text"
	flags.Var(choice(&o.format, "text", "json"), "format", "how the answer is printed: text or json")
}

func (o *outputFlags) json() bool { return o.format == "json" }

// hexFlags is --hex, for tenants that are not text.
type hexFlags struct{ on bool }

func (h *hexFlags) register(flags *pflag.FlagSet) {
	flags.BoolVar(&h.on, "hex", false, "tenants are given in hexadecimal, for names that are not text")
}

// tenant reads a tenant as it was given on the command line or on stdin.
func (h *hexFlags) tenant(given string) ([]byte, error) {
	if !h.on {
		return []byte(given), nil
	}
	name, err := hex.DecodeString(given)
	if err != nil {
		return nil, usagef("tenant %q is not hexadecimal (--hex): %w", given, err)
	}
	return name, nil
}

// tenantText is how a tenant is printed: as text, with its bytes in
// hexadecimal when it is not valid UTF-8 (else hexadecimal is "").
func tenantText(tenant []byte) (text, hexadecimal string) {
	if utf8.Valid(tenant) {
		return string(tenant), ""
	}
	return string([]rune(string(tenant))), hex.EncodeToString(tenant)
}

// logFlags is --log-level and --log-format; logs go to stderr.
type logFlags struct{ level, format string }

// register adds the flags. level is the command's default: "info" for a
// service, "warn" for a command that answers and ends.
func (l *logFlags) register(flags *pflag.FlagSet, level string) {
	l.level, l.format = level, "text"
	flags.Var(choice(&l.level, "debug", "info", "warn", "error"), "log-level", "least level of logs on stderr: debug, info, warn or error")
	flags.Var(choice(&l.format, "text", "json"), "log-format", "how logs are printed: text or json")
}

// logger writes to stderr. It never samples, so nothing is lost from a log.
func (l *logFlags) logger(e *env) *zap.Logger {
	level, err := zapcore.ParseLevel(l.level)
	if err != nil {
		level = zapcore.InfoLevel
	}
	config := zap.NewProductionEncoderConfig()
	config.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	config.EncodeDuration = zapcore.StringDurationEncoder
	encoder := zapcore.NewConsoleEncoder(config)
	if l.format == "json" {
		encoder = zapcore.NewJSONEncoder(config)
	}
	return zap.New(zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(e.stderr)), level))
}

// choiceValue is a flag whose value is one of a few words.
type choiceValue struct {
	value *string
	words []string
}

func choice(value *string, words ...string) *choiceValue { return &choiceValue{value, words} }

func (c *choiceValue) String() string { return *c.value }
func (c *choiceValue) Type() string   { return "word" }

func (c *choiceValue) Set(given string) error {
	if slices.Contains(c.words, given) {
		*c.value = given
		return nil
	}
	return fmt.Errorf("must be one of %v", c.words)
}
