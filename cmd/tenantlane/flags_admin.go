package main

import (
	"crypto/tls"
	"crypto/x509"
	"os"

	"github.com/spf13/pflag"
)

// registerAdminToken adds the token of workers' admin endpoints.
func registerAdminToken(flags *pflag.FlagSet, token *secretFlag) {
	token.register(flags, "admin-token", "token of the admin endpoint")
}

// adminCert is the certificate that a worker's admin endpoint shows.
type adminCert struct{ cert, key string }

func (c *adminCert) register(flags *pflag.FlagSet) {
	flags.StringVar(&c.cert, "admin-cert", "", "PEM `file` of the admin endpoint's certificate, which makes it HTTPS")
	flags.StringVar(&c.key, "admin-key", "", "PEM `file` of that certificate's key")
}

// config is nil without a certificate.
func (c *adminCert) config() (*tls.Config, error) {
	if c.cert == "" && c.key == "" {
		return nil, nil //nolint:nilnil // plain HTTP
	}
	if c.cert == "" || c.key == "" {
		return nil, usagef("--admin-cert and --admin-key go together")
	}
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return nil, usagef("--admin-cert: %w", err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}

// adminTrust is whom a client of admin endpoints believes.
type adminTrust struct{ ca string }

func (a *adminTrust) register(flags *pflag.FlagSet) {
	flags.StringVar(&a.ca, "admin-ca", "", "PEM `file` of the authorities that sign workers' admin certificates, which makes host:port HTTPS (default: the system's, for https URLs)")
}

// config is nil without a file.
func (a *adminTrust) config() (*tls.Config, error) {
	if a.ca == "" {
		return nil, nil //nolint:nilnil // the client's own
	}
	text, err := os.ReadFile(a.ca)
	if err != nil {
		return nil, usagef("--admin-ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, usagef("--admin-ca %s: holds no certificate", a.ca)
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, nil
}
