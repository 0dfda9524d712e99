package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/tenantlane/tenantlane/lagwatch/lag"
	"github.com/tenantlane/tenantlane/lagwatch/notify"
)

// rule is the watcher's, sped up so that a show of seconds has a page in it.
func rule() lag.Rule {
	r := lag.Defaults()
	r.Interval = 500 * time.Millisecond
	r.For = 2 * time.Second
	r.MinDelay = time.Second
	r.DrainOK = 0
	r.KeepFiring = time.Second
	return r
}

const ruleInWords = "lagwatch looks every 500 ms and pages after 2 s, from 1,000 records and 1 s of delay on, at three times the peers; " +
	"no expected drain holds a page back (all sped up for this demo)"

// pager is a webhook's receiver: an HTTP server on this machine that keeps the
// alerts it was told of.
type pager struct {
	server  *http.Server
	url     string
	told    func(notify.WebhookAlert)
	serving sync.WaitGroup
	served  error // of serving

	mu   sync.Mutex // guards seen
	seen []notify.WebhookAlert
}

// newPager listens on a free port. told is called for each alert that begins
// or ends.
func newPager(told func(notify.WebhookAlert)) (*pager, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("webhook receiver: %w", err)
	}
	p := &pager{url: "http://" + listener.Addr().String() + "/page", told: told}
	p.server = &http.Server{Handler: p, ReadHeaderTimeout: 5 * time.Second}
	p.serving.Go(func() { p.served = p.server.Serve(listener) })
	return p, nil
}

// ServeHTTP takes one delivery.
func (p *pager) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body notify.WebhookBody
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	for _, alert := range body.Alerts {
		if p.keep(alert) {
			p.told(alert)
		}
	}
}

// keep remembers an alert; false if it was there already.
func (p *pager) keep(alert notify.WebhookAlert) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, known := range p.seen {
		if known.DedupKey == alert.DedupKey && known.Status == alert.Status {
			return false
		}
	}
	p.seen = append(p.seen, alert)
	return true
}

func (p *pager) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	err := p.server.Shutdown(ctx)
	p.serving.Wait()
	if !errors.Is(p.served, http.ErrServerClosed) {
		err = errors.Join(err, p.served)
	}
	if err != nil {
		return fmt.Errorf("webhook receiver: %w", err)
	}
	return nil
}
