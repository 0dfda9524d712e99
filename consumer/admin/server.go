package admin

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
)

// Config says where a Server listens and who may ask. The zero value, but for
// Addr, is the default.
type Config struct {
	// Addr is host:port. Without a host it is the loopback address; all
	// addresses are 0.0.0.0 or ::.
	Addr string
	// Token, if set, must come with every request as
	// "Authorization: Bearer TOKEN", and allows Addr to be other than loopback.
	Token string
	// TLS, if not nil, has it serve HTTPS. It needs a certificate.
	TLS *tls.Config
	// Metrics, if not nil, are served at /metrics.
	Metrics prometheus.Gatherer
	// Logger takes each act and each refusal. Nil: none.
	Logger *zap.Logger
}

// ErrNotLoopback is wrapped by New's error when an address other than loopback
// is to be served without a token.
var ErrNotLoopback = errors.New("only loopback addresses are served without a token")

const (
	readTimeout  = 10 * time.Second
	actTimeout   = 30 * time.Second
	closeTimeout = 2 * time.Second
)

// Server serves one worker's admin endpoint.
type Server struct {
	listener net.Listener
	server   *http.Server
}

// Validate names what is wrong, without listening.
func (c Config) Validate() error {
	_, err := c.address()
	return err
}

// address is what to listen at.
func (c Config) address() (string, error) {
	host, port, err := net.SplitHostPort(c.Addr)
	if err != nil {
		return "", fmt.Errorf("admin.Config: Addr: %w", err)
	}
	if host == "" {
		host = "127.0.0.1" // seen by others only when asked for
	}
	if c.Token == "" && !isLoopback(host) {
		return "", fmt.Errorf("admin.Config: Addr %s: %w", c.Addr, ErrNotLoopback)
	}
	return net.JoinHostPort(host, port), nil
}

// New listens at Config.Addr. Run serves.
func New(cfg Config, w Worker) (*Server, error) {
	address, err := cfg.address()
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("admin.Config: Addr: %w", err)
	}
	// "localhost" may resolve to anything.
	if at, ok := listener.Addr().(*net.TCPAddr); cfg.Token == "" && (!ok || !at.IP.IsLoopback()) {
		return nil, errors.Join(fmt.Errorf("admin.Config: Addr %s is %s: %w", cfg.Addr, listener.Addr(), ErrNotLoopback), listener.Close())
	}
	if cfg.TLS != nil {
		listener = tls.NewListener(listener, cfg.TLS)
	}
	return &Server{listener: listener, server: &http.Server{
		Handler: Handler(cfg, w), ReadHeaderTimeout: readTimeout, ReadTimeout: readTimeout,
		WriteTimeout: actTimeout + readTimeout, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
	}}, nil
}

// isLoopback says that a host is this machine to itself.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Addr is where it listens, with the port that was chosen for 0.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Run serves until ctx ends, gives answers under way two seconds, and returns
// nil then.
func (s *Server) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var group errgroup.Group
	group.Go(func() error {
		defer cancel()
		if err := s.server.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serving the admin endpoint: %w", err)
		}
		return nil
	})
	<-ctx.Done()
	bounded, stop := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer stop()
	if s.server.Shutdown(bounded) != nil {
		_ = s.server.Close() // an answer that takes longer is cut
	}
	return group.Wait()
}

// Close stops listening, for a Server that is not run.
func (s *Server) Close() error { return s.listener.Close() }
