package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
)

// serveMetrics serves /metrics and /-/healthy until stop is called. Without an
// address it serves nothing and the Registry is nil.
func serveMetrics(ctx context.Context, address string, log *zap.Logger) (metrics *prometheus.Registry, stop func() error, err error) {
	if address == "" {
		return nil, func() error { return nil }, nil
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, nil, usagef("--listen: %w", err)
	}
	if host == "" {
		host = "127.0.0.1" // seen by others only when asked for
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, nil, usagef("--listen: %w", err)
	}
	registry := newRegistry()
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /-/healthy", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	log.Info("serving metrics", zap.String("address", listener.Addr().String()))
	return registry, runServer(ctx, server, listener), nil
}

// newRegistry is a registry with what Go and the process tell of themselves.
func newRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry
}

// runServer serves until the returned function is called, which gives answers
// that are under way a second.
func runServer(ctx context.Context, server *http.Server, listener net.Listener) (stop func() error) {
	var serving sync.WaitGroup
	var served error
	serving.Go(func() { served = server.Serve(listener) })
	return func() error {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if server.Shutdown(bounded) != nil {
			_ = server.Close() // an answer that takes longer is cut
		}
		serving.Wait()
		if errors.Is(served, http.ErrServerClosed) {
			return nil
		}
		return fmt.Errorf("serving metrics: %w", served)
	}
}
