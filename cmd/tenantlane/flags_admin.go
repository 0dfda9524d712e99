package main

import (
	"github.com/spf13/pflag"
)

// adminSecret is the token of workers' admin endpoints: --admin-token-file.
type adminSecret struct{ value, file string }

func (s *adminSecret) register(flags *pflag.FlagSet) {
	flags.StringVar(&s.value, "admin-token", "", "token; only from TENANTLANE_ADMIN_TOKEN or the config file")
	flags.StringVar(&s.file, "admin-token-file", "", "file that holds the token of the admin endpoint (or set TENANTLANE_ADMIN_TOKEN)")
	secret(flags, "admin-token")
}

// read is the token, or "" if none is given. A file that is empty is an error:
// it would open the endpoint.
func (s *adminSecret) read() (string, error) {
	if s.value == "" && s.file == "" {
		return "", nil
	}
	return readSecret("admin-token", s.value, s.file)
}
