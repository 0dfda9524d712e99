package lagwatch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
)

func itoa(n int32) string { return strconv.FormatInt(int64(n), 10) }

// serverStop bounds the answers that are under way when the watcher stops.
const serverStop = time.Second

// listen binds the web listener and returns what serves it until its context
// ends; without an address that is nothing.
func (w *Watcher) listen() (serve func(context.Context), err error) {
	if w.cfg.Listen == "" {
		return func(context.Context) {}, nil
	}
	host, port, err := net.SplitHostPort(w.cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("lagwatch: Listen: %w", err)
	}
	if host == "" {
		host = "127.0.0.1" // seen by others only when asked for
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, fmt.Errorf("lagwatch: Listen: %w", err)
	}
	w.log.Info("lagwatch serves", zap.String("address", l.Addr().String()))
	server := &http.Server{Handler: w.Handler(), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	return func(ctx context.Context) {
		done := make(chan struct{})
		stop := context.AfterFunc(ctx, func() {
			defer close(done)
			bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), serverStop)
			defer cancel()
			if server.Shutdown(bounded) != nil {
				_ = server.Close() // an answer that takes longer is cut
			}
		})
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			w.log.Error("the web listener ended", zap.Error(err))
		}
		if !stop() {
			<-done
		}
	}, nil
}

// Handler serves the page, /metrics, /-/healthy and /-/ready, for those who
// have a server of their own. Nothing it serves changes anything, except under
// /api/ for holders of Config.APIToken.
func (w *Watcher) Handler() http.Handler {
	mux := http.NewServeMux()
	w.web.register(mux)
	w.registerAPI(mux)
	if w.cfg.Gatherer != nil {
		mux.Handle("GET /metrics", promhttp.HandlerFor(w.cfg.Gatherer, promhttp.HandlerOpts{}))
	}
	mux.HandleFunc("GET /-/healthy", func(rw http.ResponseWriter, _ *http.Request) {
		w.health(rw, w.Last() == nil || time.Since(w.Last().At) < w.deadline(), "no evaluation for too long")
	})
	mux.HandleFunc("GET /-/ready", func(rw http.ResponseWriter, _ *http.Request) {
		w.health(rw, w.Last() != nil, "no evaluation yet")
	})
	return mux
}

// deadline is the age at which the last evaluation means that the watcher
// hangs.
func (w *Watcher) deadline() time.Duration {
	return 3*w.cfg.Rule.Interval + 3*w.cfg.SampleTimeout
}

func (w *Watcher) health(rw http.ResponseWriter, ok bool, otherwise string) {
	if !ok {
		http.Error(rw, otherwise, http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(rw, "ok")
}
