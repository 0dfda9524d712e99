package main

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// kafkaOf parses args into kafkaFlags, as a command does.
func kafkaOf(t *testing.T, args ...string) *kafkaFlags {
	t.Helper()
	var k kafkaFlags
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	k.register(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return &k
}

func TestSecurityFlags(t *testing.T) {
	password := tempFile(t, "password", "hunter2\n")
	empty := tempFile(t, "empty", "\n")
	for _, c := range []struct {
		name string
		args string
		want int    // options beside seeds and client id
		err  string // part of the error
	}{
		{"plain text", "", 0, ""},
		{"tls", "--tls", 1, ""},
		{"server name alone", "--tls-server-name kafka", 1, ""},
		{"missing ca", "--tls-ca /does/not/exist", 0, "--tls-ca"},
		{"ca that is no PEM", "--tls-ca " + password, 0, "no PEM"},
		{"half of mTLS", "--tls-cert " + password, 0, "both"},
		{"bad pair", "--tls-cert " + password + " --tls-key " + password, 0, "--tls-cert"},
		{"scram", "--sasl-mechanism scram-sha-512 --sasl-user u --sasl-password-file " + password, 1, ""},
		{"scram 256 over tls", "--tls --sasl-mechanism scram-sha-256 --sasl-user u --sasl-password-file " + password, 2, ""},
		{"plain", "--sasl-mechanism plain --sasl-user u --sasl-password-file " + password, 1, ""},
		{"oauth", "--sasl-mechanism oauthbearer --sasl-token-file " + password, 1, ""},
		{"oauth without token", "--sasl-mechanism oauthbearer", 0, "--sasl-token-file"},
		{"no user", "--sasl-mechanism plain --sasl-password-file " + password, 0, "--sasl-user"},
		{"no password", "--sasl-mechanism plain --sasl-user u", 0, "TENANTLANE_SASL_PASSWORD"},
		{"empty password", "--sasl-mechanism plain --sasl-user u --sasl-password-file " + empty, 0, "empty"},
		{"user without mechanism", "--sasl-user u", 0, "--sasl-mechanism"},
	} {
		t.Run(c.name, func(t *testing.T) {
			opts, err := kafkaOf(t, strings.Fields("--brokers a:1 "+c.args)...).opts()
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("error %v, want %q", err, c.err)
				}
				return
			}
			if err != nil || len(opts) != 2+c.want {
				t.Errorf("%d options, error %v; want %d", len(opts), err, 2+c.want)
			}
		})
	}
}

func TestBrokersAreNeeded(t *testing.T) {
	if _, err := kafkaOf(t).opts(); err == nil || !strings.Contains(err.Error(), "KAFKA_BROKERS") {
		t.Errorf("error %v", err)
	}
}

func TestTenantsThatAreNotText(t *testing.T) {
	plain, hexed := hexFlags{}, hexFlags{on: true}
	if got, err := plain.tenant("acme"); string(got) != "acme" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := hexed.tenant("ff00"); string(got) != "\xff\x00" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := hexed.tenant("xyz"); err == nil || !strings.Contains(err.Error(), "xyz") {
		t.Errorf("error %v", err)
	}
	if text, hexadecimal := tenantText([]byte("acme")); text != "acme" || hexadecimal != "" {
		t.Errorf("%q %q", text, hexadecimal)
	}
	if text, hexadecimal := tenantText([]byte("a\xff")); text != "a\uFFFD" || hexadecimal != "61ff" {
		t.Errorf("%q %q", text, hexadecimal)
	}
}

func TestProgressSaysHowFar(t *testing.T) {
	p := &progress{label: "import", total: 200}
	if got := p.line(50, 1e9); !strings.Contains(got, "25%") || !strings.Contains(got, "50 of 200") {
		t.Errorf("%q", got)
	}
	p.total = 0
	if got := p.line(50, 1e9); got != "import 50 (50/s)" {
		t.Errorf("%q", got)
	}
	p.set(1) // no terminal: nothing to write to, nothing written
	p.end()
	if isTerminal(&strings.Builder{}) || isTerminal(deviceNull(t)) {
		t.Error("a buffer or a null device is taken for a terminal")
	}
}

func deviceNull(t *testing.T) *os.File {
	t.Helper()
	file, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return file
}
