package admin

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/consumer"
)

// Worker is what is asked; *consumer.Runtime is one.
type Worker interface {
	Viewer
	Operator
	Prober
}

// Viewer tells of tenants and partitions.
type Viewer interface {
	Tenants(f consumer.TenantFilter) []consumer.TenantStatus
	Tenant(name []byte) consumer.TenantStatus
	Progress() []consumer.PartitionStatus
}

// Operator acts on a tenant.
type Operator interface {
	PauseTenant(ctx context.Context, tenant []byte, act consumer.Act) (consumer.Effect, error)
	ResumeTenant(ctx context.Context, tenant []byte, act consumer.Act) (consumer.Effect, error)
	SkipRecord(ctx context.Context, tenant []byte, at consumer.Place, act consumer.Act) (consumer.Effect, error)
	LimitTenant(tenant []byte, limits consumer.Limits, act consumer.Act) error
}

// Prober answers probes.
type Prober interface {
	Ready() error
	Healthy() error
}

// maxBody bounds a request's body, in bytes.
const maxBody = 64 << 10

// handler answers requests.
type handler struct {
	worker Worker
	token  []byte // its digest; nil: only loopback
	log    *zap.Logger
}

// Handler is the endpoint without its listener, for a server of one's own. Of
// cfg it does not use Addr: who gives no token must see to it himself that
// others cannot reach it.
func Handler(cfg Config, w Worker) http.Handler {
	h := &handler{worker: w, log: cfg.Logger}
	if cfg.Token != "" {
		h.token = digest(cfg.Token)
	}
	if h.log == nil {
		h.log = zap.NewNop()
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /-/healthy", probe(w.Healthy))
	mux.HandleFunc("GET /-/ready", probe(w.Ready))
	guarded := http.NewServeMux()
	if cfg.Metrics != nil {
		guarded.Handle("GET /metrics", promhttp.HandlerFor(cfg.Metrics, promhttp.HandlerOpts{}))
	}
	guarded.HandleFunc("GET /v1/tenants", h.get(h.tenants))
	guarded.HandleFunc("GET /v1/tenant", h.get(h.tenant))
	guarded.HandleFunc("GET /v1/partitions", h.get(h.partitions))
	guarded.HandleFunc("POST /v1/pause", h.post(h.pause))
	guarded.HandleFunc("POST /v1/resume", h.post(h.resume))
	guarded.HandleFunc("POST /v1/skip", h.post(h.skip))
	guarded.HandleFunc("POST /v1/limit", h.post(h.limit))
	mux.Handle("/", h.guard(guarded))
	return mux
}

// probe says no more than yes or no, for it is not guarded.
func probe(ask func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if ask() != nil {
			http.Error(w, "no", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	}
}

// digest makes tokens of any length equally long to compare.
func digest(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}

// guard lets through who may ask.
func (h *handler) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case h.token != nil && !h.authorized(r):
			w.Header().Set("WWW-Authenticate", "Bearer")
			h.refuse(w, r, http.StatusUnauthorized, errors.New("the token is missing or wrong"))
		case h.token == nil && !isLoopback(hostname(r.Host)):
			h.refuse(w, r, http.StatusForbidden, fmt.Errorf("host %q: %w", r.Host, ErrNotLoopback))
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func (h *handler) authorized(r *http.Request) bool {
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return ok && subtle.ConstantTimeCompare(digest(given), h.token) == 1
}

func hostname(hostport string) string {
	if host, _, err := net.SplitHostPort(hostport); err == nil {
		return host
	}
	return strings.Trim(hostport, "[]")
}

// refuse answers with an error, and logs it.
func (h *handler) refuse(w http.ResponseWriter, r *http.Request, status int, err error) {
	h.log.Warn("admin request refused", zap.String("remote", r.RemoteAddr), zap.String("method", r.Method),
		zap.String("path", r.URL.Path), zap.Int("status", status), zap.Error(err))
	answer(w, status, errorJSON{err.Error()})
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // who asked may be gone
}

// statusError is an error that has its own status.
type statusError struct {
	status int
	err    error
}

func (e *statusError) Error() string { return e.err.Error() }
func (e *statusError) Unwrap() error { return e.err }

func badRequest(format string, args ...any) error {
	return &statusError{http.StatusBadRequest, fmt.Errorf(format, args...)}
}

// statusOf is the status of an error.
func statusOf(err error) int {
	if own, ok := errors.AsType[*statusError](err); ok {
		return own.status
	}
	switch {
	case errors.Is(err, consumer.ErrNotOwned):
		return http.StatusNotFound
	case errors.Is(err, consumer.ErrNotRunning), errors.Is(err, consumer.ErrRecovering):
		return http.StatusServiceUnavailable
	case errors.Is(err, consumer.ErrNotFirst), errors.Is(err, consumer.ErrNotInTrouble),
		errors.Is(err, consumer.ErrInHand), errors.Is(err, consumer.ErrNotInMemory):
		return http.StatusConflict
	}
	return http.StatusBadRequest
}

// get answers a question.
func (h *handler) get(ask func(url.Values) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := ask(r.URL.Query())
		if err != nil {
			h.refuse(w, r, statusOf(err), err)
			return
		}
		answer(w, http.StatusOK, v)
	}
}

// post does what it is told.
func (h *handler) post(do func(context.Context, *order) (Effect, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		o, err := readOrder(r)
		if err != nil {
			h.refuse(w, r, statusOf(err), err)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), actTimeout)
		defer cancel()
		effect, err := do(ctx, o)
		if err != nil {
			h.refuse(w, r, statusOf(err), err)
			return
		}
		h.log.Info("admin request", zap.String("remote", r.RemoteAddr), zap.String("path", r.URL.Path),
			zap.ByteString("tenant", o.name), zap.String("actor", o.act.Actor), zap.Bool("committed", effect.Committed))
		answer(w, http.StatusOK, effect)
	}
}

// order is a request with its tenant and its author made out.
type order struct {
	orderJSON
	name []byte
	act  consumer.Act
}

// readOrder reads a body. Another content type is refused: a browser sends
// JSON to a foreign host only after asking it.
func readOrder(r *http.Request) (*order, error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, &statusError{http.StatusUnsupportedMediaType, errors.New("the body must be application/json")}
	}
	var o order
	body := json.NewDecoder(io.LimitReader(r.Body, maxBody))
	body.DisallowUnknownFields()
	if err := body.Decode(&o.orderJSON); err != nil {
		return nil, badRequest("reading the body: %w", err)
	}
	if _, err := body.Token(); !errors.Is(err, io.EOF) {
		return nil, badRequest("something follows the JSON object")
	}
	var err error
	if o.name, err = o.tenant(); err != nil {
		return nil, err
	}
	o.act = consumer.Act{Actor: o.Actor, Reason: o.Reason}
	if o.act.Actor == "" {
		o.act.Actor = r.RemoteAddr
	}
	return &o, nil
}

func (h *handler) tenants(q url.Values) (any, error) {
	filter := consumer.TenantFilter{State: consumer.TenantState(q.Get("state"))}
	if text := q.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxTenants {
			return nil, badRequest("limit %q: want a number from 1 to %d", text, maxTenants)
		}
		filter.Most = n
	}
	return tenantsJSON(h.worker.Tenants(filter)), nil
}

func (h *handler) tenant(q url.Values) (any, error) {
	var given orderJSON
	if q.Has("name") {
		given.Tenant = new(q.Get("name"))
	}
	given.TenantHex = q.Get("hex")
	name, err := given.tenant()
	if err != nil {
		return nil, err
	}
	return tenantJSON(h.worker.Tenant(name)), nil
}

func (h *handler) partitions(url.Values) (any, error) {
	return partitionsJSON(h.worker.Progress()), nil
}

func (h *handler) pause(ctx context.Context, o *order) (Effect, error) {
	effect, err := h.worker.PauseTenant(ctx, o.name, o.act)
	return Effect(effect), err
}

func (h *handler) resume(ctx context.Context, o *order) (Effect, error) {
	effect, err := h.worker.ResumeTenant(ctx, o.name, o.act)
	return Effect(effect), err
}

func (h *handler) skip(ctx context.Context, o *order) (Effect, error) {
	if o.Topic == "" || o.Partition == nil || o.Offset == nil {
		return Effect{}, badRequest("a record to skip is named by topic, partition and offset")
	}
	at := consumer.Place{Topic: o.Topic, Partition: *o.Partition, Offset: *o.Offset}
	effect, err := h.worker.SkipRecord(ctx, o.name, at, o.act)
	return Effect(effect), err
}

func (h *handler) limit(_ context.Context, o *order) (Effect, error) {
	limits := consumer.Limits{Weight: o.Weight, Concurrency: o.Concurrency, Rate: o.Rate, Burst: o.Burst}
	return Effect{}, h.worker.LimitTenant(o.name, limits, o.act)
}
