package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"os"

	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// tlsFlags is encryption, and mTLS when a client certificate is given.
type tlsFlags struct {
	on                  bool
	ca, cert, key, name string
}

func (t *tlsFlags) register(flags *pflag.FlagSet) {
	flags.BoolVar(&t.on, "tls", false, "encrypt connections to brokers; on as soon as another --tls flag is given")
	flags.StringVar(&t.ca, "tls-ca", "", "PEM file of the authorities that sign brokers' certificates (default: the system's)")
	flags.StringVar(&t.cert, "tls-cert", "", "PEM file of the client certificate, for mTLS")
	flags.StringVar(&t.key, "tls-key", "", "PEM file of the client certificate's key")
	flags.StringVar(&t.name, "tls-server-name", "", "name that brokers' certificates must carry (default: the host dialed)")
}

func (t *tlsFlags) opts() ([]kgo.Opt, error) {
	if !t.on && t.ca == "" && t.cert == "" && t.key == "" && t.name == "" {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.name}
	if t.ca != "" {
		pem, err := os.ReadFile(t.ca)
		if err != nil {
			return nil, usagef("--tls-ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, usagef("--tls-ca: %s holds no PEM certificate", t.ca)
		}
	}
	if (t.cert == "") != (t.key == "") {
		return nil, usagef("--tls-cert and --tls-key: give both or neither")
	}
	if t.cert != "" {
		pair, err := tls.LoadX509KeyPair(t.cert, t.key)
		if err != nil {
			return nil, usagef("--tls-cert, --tls-key: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return []kgo.Opt{kgo.DialTLSConfig(config)}, nil
}

// saslFlags is the login. Secrets come from files or the environment.
type saslFlags struct {
	mechanism, user string
	password, token secretFlag
}

func (s *saslFlags) register(flags *pflag.FlagSet) {
	flags.Var(choice(&s.mechanism, "", "plain", "scram-sha-256", "scram-sha-512", "oauthbearer"), "sasl-mechanism",
		"login: plain, scram-sha-256, scram-sha-512 or oauthbearer (default: none)")
	flags.StringVar(&s.user, "sasl-user", "", "user name for plain and scram")
	s.password.register(flags, "sasl-password", "password")
	s.token.register(flags, "sasl-token", "oauthbearer token, read at each login")
}

func (s *saslFlags) opts() ([]kgo.Opt, error) {
	mechanism, err := s.login()
	if err != nil || mechanism == nil {
		return nil, err
	}
	return []kgo.Opt{kgo.SASL(mechanism)}, nil
}

func (s *saslFlags) login() (sasl.Mechanism, error) {
	switch s.mechanism {
	case "":
		if s.user != "" || s.password.given() || s.token.given() {
			return nil, usagef("--sasl-mechanism: missing, but another --sasl setting is given")
		}
		return nil, nil
	case "oauthbearer":
		return s.bearer()
	}
	if s.user == "" {
		return nil, usagef("--sasl-user: needed for %s", s.mechanism)
	}
	password, err := s.password.read()
	if err != nil {
		return nil, err
	}
	switch s.mechanism {
	case "plain":
		return plain.Auth{User: s.user, Pass: password}.AsMechanism(), nil
	case "scram-sha-256":
		return scram.Auth{User: s.user, Pass: password}.AsSha256Mechanism(), nil
	default:
		return scram.Auth{User: s.user, Pass: password}.AsSha512Mechanism(), nil
	}
}

// bearer reads the token at each login, so that a rotated file is followed.
func (s *saslFlags) bearer() (sasl.Mechanism, error) {
	if _, err := s.token.read(); err != nil {
		return nil, err
	}
	return oauth.Oauth(func(context.Context) (oauth.Auth, error) {
		token, err := s.token.read()
		return oauth.Auth{Token: token}, err
	}), nil
}
