package admin_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/tenantlane/tenantlane/consumer"
	"github.com/tenantlane/tenantlane/consumer/admin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var _ admin.Worker = (*consumer.Runtime)(nil)

// fake is a worker that notes what it is told.
type fake struct {
	told           []string
	filter         consumer.TenantFilter
	ready, healthy error
	answer         error
}

func (f *fake) Tenants(filter consumer.TenantFilter) []consumer.TenantStatus {
	f.filter = filter
	return []consumer.TenantStatus{
		{
			Tenant: []byte("acme"), State: consumer.StateParked, Depth: 7, ETA: -1, Mean: 1500 * time.Microsecond,
			Oldest: time.Now().Add(-time.Minute), Pause: consumer.Act{Actor: "eve", Reason: "import"}, PausedAt: time.Unix(1e9, 0),
			Troubles: []consumer.Trouble{{Place: consumer.Place{Topic: "orders", Partition: 3, Offset: 17}, Parked: true, Attempts: 5, Error: "boom"}},
		},
		{Tenant: []byte{0xff, 1}, State: consumer.StateRunning, ETA: time.Second},
	}
}

func (f *fake) Tenant(name []byte) consumer.TenantStatus {
	return consumer.TenantStatus{Tenant: name, State: consumer.StateIdle}
}

func (f *fake) Progress() []consumer.PartitionStatus {
	return []consumer.PartitionStatus{{Topic: "orders", Partition: 3, Watermark: 5, Stopped: errors.New("stopped")}}
}

func (f *fake) note(format string, args ...any) (consumer.Effect, error) {
	f.told = append(f.told, fmt.Sprintf(format, args...))
	return consumer.Effect{Lanes: 2, Committed: true}, f.answer
}

func (f *fake) PauseTenant(_ context.Context, tenant []byte, act consumer.Act) (consumer.Effect, error) {
	return f.note("pause %q by %s: %s", tenant, act.Actor, act.Reason)
}

func (f *fake) ResumeTenant(_ context.Context, tenant []byte, _ consumer.Act) (consumer.Effect, error) {
	return f.note("resume %q", tenant)
}

func (f *fake) SkipRecord(_ context.Context, tenant []byte, at consumer.Place, _ consumer.Act) (consumer.Effect, error) {
	return f.note("skip %s of %q", at, tenant)
}

func (f *fake) LimitTenant(tenant []byte, l consumer.Limits, _ consumer.Act) error {
	_, err := f.note("limit %q to %v", tenant, l)
	return err
}

func (f *fake) Ready() error   { return f.ready }
func (f *fake) Healthy() error { return f.healthy }

// serve starts a server until the test ends, and returns its URL.
func serve(t *testing.T, cfg admin.Config, w admin.Worker) string {
	t.Helper()
	cfg.Addr = "127.0.0.1:0"
	s, err := admin.New(cfg, w)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return "http://" + s.Addr()
}

func client(t *testing.T, at, token string) *admin.Client {
	t.Helper()
	c, err := admin.NewClient(at, token)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestOnlyLoopbackIsServedWithoutAToken(t *testing.T) {
	for addr, allowed := range map[string]bool{
		"127.0.0.1:0": true, "[::1]:0": true, "localhost:0": true, ":0": true,
		"0.0.0.0:0": false, "[::]:0": false, "192.0.2.1:0": false, "example.invalid:0": false,
	} {
		s, err := admin.New(admin.Config{Addr: addr}, &fake{})
		switch {
		case err == nil && !allowed:
			t.Errorf("%s is served without a token", addr)
		case !allowed && !errors.Is(err, admin.ErrNotLoopback):
			t.Errorf("%s: %v", addr, err)
		case allowed && err != nil && addr != "[::1]:0": // a machine without IPv6
			t.Errorf("%s: %v", addr, err)
		}
		if s != nil {
			if at := s.Addr(); strings.HasPrefix(at, "0.0.0.0") || strings.HasPrefix(at, "[::]") {
				t.Errorf("%s listens at %s", addr, at)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	s, err := admin.New(admin.Config{Addr: "0.0.0.0:0", Token: "secret"}, &fake{})
	if err != nil {
		t.Fatalf("with a token: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := admin.New(admin.Config{Addr: "nonsense"}, &fake{}); err == nil || !strings.Contains(err.Error(), "Addr") {
		t.Errorf("a wrong address: %v", err)
	}
}

func TestEveryRequestButProbesNeedsTheToken(t *testing.T) {
	f := &fake{}
	core, logs := observer.New(zap.InfoLevel)
	at := serve(t, admin.Config{Token: "secret", Metrics: prometheus.NewRegistry(), Logger: zap.New(core)}, f)
	for _, token := range []string{"", "wrong", "secre", "secrets", "SECRET"} {
		c := client(t, at, token)
		_, err := c.Tenants(t.Context(), consumer.TenantFilter{})
		wantStatus(t, err, http.StatusUnauthorized)
		_, err = c.Pause(t.Context(), []byte("a"), consumer.Act{})
		wantStatus(t, err, http.StatusUnauthorized)
	}
	if len(f.told) > 0 {
		t.Errorf("without the token it did %v", f.told)
	}
	if n := logs.FilterMessage("admin request refused").Len(); n != 10 {
		t.Errorf("%d refusals logged, want 10", n)
	}
	for path, want := range map[string]int{
		"/metrics": http.StatusUnauthorized, "/-/ready": http.StatusOK, "/-/healthy": http.StatusOK, "/": http.StatusUnauthorized,
	} {
		if got := status(t, http.MethodGet, at+path, nil); got != want {
			t.Errorf("%s without the token: %d, want %d", path, got, want)
		}
	}
	if list, err := client(t, at, "secret").Tenants(t.Context(), consumer.TenantFilter{Most: 5, State: "parked"}); err != nil || len(list) != 2 {
		t.Errorf("with it: %v, %v", list, err)
	}
	if f.filter != (consumer.TenantFilter{Most: 5, State: "parked"}) {
		t.Errorf("asked for %+v", f.filter)
	}
	for _, entry := range logs.All() {
		if text := fmt.Sprint(entry.ContextMap()); strings.Contains(text, "secret") {
			t.Errorf("the log holds the token: %s", text)
		}
	}
}

func wantStatus(t *testing.T, err error, want int) {
	t.Helper()
	var said *admin.StatusError
	if !errors.As(err, &said) || said.Status != want || said.Text == "" {
		t.Errorf("answered %v, want status %d", err, want)
	}
}

// status asks with the given changes to a request.
func status(t *testing.T, method, url string, body io.Reader, change ...func(*http.Request)) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range change {
		f(req)
	}
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

// Without a token a browser on this machine could be made to ask by a name that
// resolves to loopback, or to send a form.
func TestAForeignPageCannotAsk(t *testing.T) {
	f := &fake{}
	at := serve(t, admin.Config{}, f)
	foreign := func(r *http.Request) { r.Host = "evil.example" }
	form := func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }
	asJSON := func(r *http.Request) { r.Header.Set("Content-Type", "application/json") }
	for _, c := range []struct {
		what   string
		change []func(*http.Request)
		want   int
	}{
		{"another host", []func(*http.Request){foreign, asJSON}, http.StatusForbidden},
		{"a form", []func(*http.Request){form}, http.StatusUnsupportedMediaType},
		{"this machine", []func(*http.Request){asJSON}, http.StatusOK},
	} {
		if got := status(t, http.MethodPost, at+"/v1/pause", strings.NewReader(`{"tenant":"a"}`), c.change...); got != c.want {
			t.Errorf("%s: %d, want %d", c.what, got, c.want)
		}
	}
	if len(f.told) != 1 {
		t.Errorf("it did %v", f.told)
	}
}

func TestActsReachTheWorkerAsTheyWereMeant(t *testing.T) {
	f := &fake{}
	core, logs := observer.New(zap.InfoLevel)
	c := client(t, serve(t, admin.Config{Logger: zap.New(core)}, f), "")
	eve := consumer.Act{Actor: "eve", Reason: "import"}
	for _, act := range []func() (admin.Effect, error){
		func() (admin.Effect, error) { return c.Pause(t.Context(), []byte("acme"), eve) },
		func() (admin.Effect, error) { return c.Resume(t.Context(), []byte{0xff, 1}, eve) },
		func() (admin.Effect, error) { return c.Pause(t.Context(), nil, eve) },
		func() (admin.Effect, error) {
			return c.Skip(t.Context(), []byte("acme"), consumer.Place{Topic: "orders", Partition: 0, Offset: 0}, eve)
		},
	} {
		if effect, err := act(); err != nil || effect != (admin.Effect{Lanes: 2, Committed: true}) {
			t.Errorf("%+v, %v", effect, err)
		}
	}
	if err := c.Limit(t.Context(), []byte("acme"), consumer.Limits{Weight: 2, Rate: 100}, eve); err != nil {
		t.Error(err)
	}
	want := `pause "acme" by eve: import, resume "\xff\x01", pause "" by eve: import, skip orders/0/0 of "acme", limit "acme" to {2 0 100 0}`
	if got := strings.Join(f.told, ", "); got != want {
		t.Errorf("did %s\nwant %s", got, want)
	}
	if n := logs.FilterMessage("admin request").FilterField(zap.String("actor", "eve")).Len(); n != 5 {
		t.Errorf("%d acts logged with their actor, want 5", n)
	}
}

func TestStatusIsTold(t *testing.T) {
	c := client(t, serve(t, admin.Config{}, &fake{}), "")
	list, err := c.Tenants(t.Context(), consumer.TenantFilter{})
	if err != nil || len(list) != 2 {
		t.Fatalf("%v, %v", list, err)
	}
	acme, other := list[0], list[1]
	if acme.Tenant != "acme" || acme.TenantHex != "" || acme.State != "parked" || acme.ETAS != nil || acme.OldestS == nil || *acme.OldestS < 60 ||
		acme.PausedBy != "eve" || acme.PausedAt == nil || len(acme.Troubles) != 1 || acme.Troubles[0].Offset != 17 || acme.Troubles[0].Error != "boom" {
		t.Errorf("%+v", acme)
	}
	if other.TenantHex != "ff01" || other.ETAS == nil || *other.ETAS != 1 || other.OldestS != nil || other.PausedAt != nil {
		t.Errorf("%+v", other)
	}
	for _, name := range [][]byte{[]byte("acme"), {0xff, 0}, nil} {
		if one, err := c.Tenant(t.Context(), name); err != nil || one.State != "idle" || one.TenantHex == "" && one.Tenant != string(name) {
			t.Errorf("%q: %+v, %v", name, one, err)
		}
	}
	if all, err := c.Partitions(t.Context()); err != nil || len(all) != 1 || all[0].Watermark != 5 || all[0].Stopped != "stopped" {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestErrorsHaveTheirStatus(t *testing.T) {
	f := &fake{}
	c := client(t, serve(t, admin.Config{}, f), "")
	for err, want := range map[error]int{
		consumer.ErrNotOwned: http.StatusNotFound, consumer.ErrNotFirst: http.StatusConflict, consumer.ErrInHand: http.StatusConflict,
		consumer.ErrNotInTrouble: http.StatusConflict, consumer.ErrNotInMemory: http.StatusConflict,
		consumer.ErrNotRunning: http.StatusServiceUnavailable, consumer.ErrRecovering: http.StatusServiceUnavailable,
		errors.New("other"): http.StatusBadRequest,
	} {
		f.answer = fmt.Errorf("record: %w", err)
		_, got := c.Skip(t.Context(), []byte("a"), consumer.Place{Topic: "orders"}, consumer.Act{})
		wantStatus(t, got, want)
		if got != nil && !strings.Contains(got.Error(), err.Error()) {
			t.Errorf("%v does not say %v", got, err)
		}
	}
}

func TestBodiesThatAreWrongAreRefused(t *testing.T) {
	f := &fake{}
	h := admin.Handler(admin.Config{}, f)
	for _, c := range []struct{ path, body string }{
		{"/v1/pause", ``},
		{"/v1/pause", `{}`},
		{"/v1/pause", `{"tenant":"a","tenant_hex":"61"}`},
		{"/v1/pause", `{"tenant_hex":"xyz"}`},
		{"/v1/pause", `{"tenant":"a","resaon":"typo"}`},
		{"/v1/pause", `{"tenant":"a"} {"tenant":"b"}`},
		{"/v1/skip", `{"tenant":"a"}`},
		{"/v1/skip", `{"tenant":"a","topic":"orders","partition":1}`},
		{"/v1/skip", `{"tenant":"a","topic":"orders","offset":1}`},
		{"/v1/skip", `{"tenant":"a","partition":1,"offset":1}`},
		{"/v1/pause", `{"tenant":"` + strings.Repeat("a", 100_000) + `"}`},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost"+c.path, strings.NewReader(c.body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		var said struct{ Error string }
		if err := json.Unmarshal(w.Body.Bytes(), &said); w.Code != http.StatusBadRequest || err != nil || said.Error == "" {
			t.Errorf("%s %.60s: %d %s", c.path, c.body, w.Code, w.Body)
		}
	}
	for _, path := range []string{"/v1/tenants?limit=0", "/v1/tenants?limit=x", "/v1/tenants?limit=1000000", "/v1/tenant", "/v1/tenant?hex=x"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost"+path, nil))
		if w.Code != http.StatusBadRequest {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	if len(f.told) > 0 {
		t.Errorf("it did %v", f.told)
	}
}

func TestProbes(t *testing.T) {
	f := &fake{}
	at := serve(t, admin.Config{}, f)
	f.ready = consumer.ErrNotJoined
	if got := status(t, http.MethodGet, at+"/-/ready", nil); got != http.StatusServiceUnavailable {
		t.Errorf("ready before it is: %d", got)
	}
	if got := status(t, http.MethodGet, at+"/-/healthy", nil); got != http.StatusOK {
		t.Errorf("healthy before it is ready: %d", got)
	}
	f.ready, f.healthy = nil, consumer.ErrStuckHandler
	if got := status(t, http.MethodGet, at+"/-/healthy", nil); got != http.StatusServiceUnavailable {
		t.Errorf("healthy while stuck: %d", got)
	}
	// A probe comes from the kubelet, to the pod's address.
	if got := status(t, http.MethodGet, at+"/-/ready", nil, func(r *http.Request) { r.Host = "10.0.0.7:9400" }); got != http.StatusOK {
		t.Errorf("a probe by address: %d", got)
	}
}

func TestAClientSaysWhatIsWrong(t *testing.T) {
	for _, at := range []string{"ftp://x", "http://", "http://a b"} {
		if _, err := admin.NewClient(at, ""); err == nil {
			t.Errorf("%q is taken", at)
		}
	}
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	_, err := client(t, other.URL, "").Tenants(t.Context(), consumer.TenantFilter{})
	if err == nil || !strings.Contains(err.Error(), "admin endpoint") {
		t.Errorf("a server of another kind: %v", err)
	}
}

func TestATokenGoesOverTLS(t *testing.T) {
	t.Parallel()
	example := httptest.NewUnstartedServer(nil)
	example.StartTLS() // for its certificate
	defer example.Close()
	server, err := admin.New(admin.Config{
		Addr: "127.0.0.1:0", Token: "secret", TLS: &tls.Config{Certificates: example.TLS.Certificates, MinVersion: tls.VersionTLS12},
	}, &fake{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if served := server.Run(ctx); served != nil {
			t.Error(served)
		}
	})
	defer running.Wait()
	defer cancel()
	roots := x509.NewCertPool()
	roots.AddCert(example.Certificate())
	trusting, err := admin.NewTLSClient(server.Addr(), "secret", &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	defer trusting.Close()
	if _, err := trusting.Partitions(ctx); err != nil {
		t.Errorf("over TLS: %v", err)
	}
	for _, at := range []string{"https://" + server.Addr(), "http://" + server.Addr()} {
		other, err := admin.NewClient(at, "secret")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := other.Partitions(ctx); err == nil {
			t.Errorf("%s answered a client that does not know its certificate", at)
		}
		other.Close()
	}
}
