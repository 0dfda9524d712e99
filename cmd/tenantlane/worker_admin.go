package main

import (
	"context"
	"errors"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/consumer"
	"github.com/tenantlane/tenantlane/consumer/admin"
)

// workerAdmin is a worker's admin endpoint.
type workerAdmin struct {
	address string
	token   secretFlag
	cert    adminCert
}

func (a *workerAdmin) register(flags *pflag.FlagSet) {
	flags.StringVar(&a.address, "admin", "", "address of the admin endpoint for tenantlane lanes, probes and /metrics; without a host it is loopback,\n"+
		"and any other wants a token (default: none)")
	registerAdminToken(flags, &a.token)
	a.cert.register(flags)
}

// config is the endpoint's configuration, checked.
func (a *workerAdmin) config() (admin.Config, error) {
	token, err := a.token.optional()
	if err != nil {
		return admin.Config{}, err
	}
	certificate, err := a.cert.config()
	if err != nil {
		return admin.Config{}, err
	}
	cfg := admin.Config{Addr: a.address, Token: token, TLS: certificate}
	switch err := cfg.Validate(); {
	case errors.Is(err, admin.ErrNotLoopback):
		return cfg, usagef("--admin %s: %w; give --admin-token-file", a.address, admin.ErrNotLoopback)
	case err != nil:
		return cfg, usagef("--admin: %w", err)
	}
	return cfg, nil
}

func (a *workerAdmin) validate() error {
	if a.address == "" {
		return nil
	}
	_, err := a.config()
	return err
}

// serve serves until stop is called, which is after the worker has drained:
// operators and probes want to see that. Without an address it serves nothing.
func (a *workerAdmin) serve(ctx context.Context, worker *consumer.Runtime, metrics prometheus.Gatherer, log *zap.Logger) (stop func() error, err error) {
	if a.address == "" {
		return func() error { return nil }, nil
	}
	cfg, err := a.config()
	if err != nil {
		return nil, err
	}
	cfg.Metrics, cfg.Logger = metrics, log
	server, err := admin.New(cfg, worker)
	if err != nil {
		return nil, usagef("--admin: %w", err)
	}
	log.Info("serving the admin endpoint", zap.String("address", server.Addr()))
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var serving sync.WaitGroup
	var served error
	serving.Go(func() { served = server.Run(ctx) })
	return func() error {
		cancel()
		serving.Wait()
		return served
	}, nil
}
