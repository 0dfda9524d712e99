package deliver_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/consumer"
	"github.com/tenantlane/tenantlane/internal/deliver"
)

func aRecord() *consumer.Record {
	return &consumer.Record{
		Record: &kgo.Record{
			Topic: topic, Partition: 3, Offset: 42, Key: []byte("acme/ü%"), Value: []byte("body"),
			Headers: []kgo.RecordHeader{{Key: "trace", Value: []byte("t1")}, {Key: "bad name", Value: []byte("x")}},
		},
		Tenant: []byte("acme"), Attempt: 2,
	}
}

func TestHTTPPostsTheRecord(t *testing.T) {
	var got *http.Request
	var body []byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		w.WriteHeader(http.StatusNoContent)
	}))
	defer server.Close()
	h, err := deliver.NewHTTP(deliver.HTTPConfig{URL: server.URL + "/orders?x=1", Client: server.Client()})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Handle(t.Context(), aRecord()); err != nil {
		t.Fatalf("delivering: %v", err)
	}
	if got.Method != http.MethodPost || got.URL.String() != "/orders?x=1" || string(body) != "body" {
		t.Errorf("got %s %s with body %q", got.Method, got.URL, body)
	}
	for name, want := range map[string]string{
		"X-Tenant": "acme", "X-Kafka-Key": "acme%2F%C3%BC%25", "X-Kafka-Topic": topic, "X-Kafka-Partition": "3",
		"X-Kafka-Offset": "42", "X-Attempt": "2", "X-Kafka-Header-Trace": "t1", "Content-Type": "application/octet-stream",
	} {
		if v := got.Header.Get(name); v != want {
			t.Errorf("header %s is %q, want %q", name, v, want)
		}
	}
}

// A header's value loses the spaces around it, so two tenants would be one.
func TestHTTPTellsTenantsApart(t *testing.T) {
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get("X-Tenant"))
	}))
	defer server.Close()
	h, err := deliver.NewHTTP(deliver.HTTPConfig{URL: server.URL, Client: server.Client()})
	if err != nil {
		t.Fatal(err)
	}
	for _, tenant := range []string{"acme", " acme", "acme ", "%20acme", "a cme", " ", ""} {
		r := aRecord()
		r.Tenant = []byte(tenant)
		if err := h.Handle(t.Context(), r); err != nil {
			t.Fatalf("delivering of %q: %v", tenant, err)
		}
		if name, err := url.PathUnescape(got[len(got)-1]); name != tenant {
			t.Errorf("tenant %q arrives as %q, %v", tenant, name, err)
		}
	}
}

// outcome names what a handler's error means to the runtime.
func outcome(err error) string {
	if err == nil {
		return "done"
	}
	for name, example := range map[string]error{
		"skip": consumer.Skip(""), "retry after": consumer.RetryAfter(0), "permanent": consumer.Permanent(io.EOF),
	} {
		if holds(err, fmt.Sprintf("%T", example)) {
			return name
		}
	}
	return "retry"
}

// holds tells whether err, or one that it wraps beside others, is of a type.
func holds(err error, typed string) bool {
	if fmt.Sprintf("%T", err) == typed {
		return true
	}
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		return slices.ContainsFunc(several.Unwrap(), func(e error) bool { return holds(e, typed) })
	}
	return false
}

func TestHTTPAnswersAndWhatTheyMean(t *testing.T) {
	for _, c := range []struct {
		status     int
		retryAfter string
		rejected   deliver.Rejected
		want       string
	}{
		{200, "", 0, "done"},
		{299, "", 0, "done"},
		{302, "", 0, "retry"},
		{429, "7", 0, "retry after"},
		{429, "", 0, "retry"},
		{503, "1", 0, "retry after"},
		{503, "Wed, 21 Oct 2015 07:28:00 GMT", 0, "retry after"},
		{503, "soon", 0, "retry"},
		{500, "9", 0, "retry"},
		{408, "", 0, "retry"},
		{400, "", deliver.RejectedFatal, "permanent"},
		{404, "", deliver.RejectedRetry, "retry"},
		{422, "", deliver.RejectedSkip, "skip"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if c.retryAfter != "" {
				w.Header().Set("Retry-After", c.retryAfter)
			}
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(c.status)
		}))
		h, err := deliver.NewHTTP(deliver.HTTPConfig{URL: server.URL, Rejected: c.rejected})
		if err != nil {
			t.Fatal(err)
		}
		if got := outcome(h.Handle(t.Context(), aRecord())); got != c.want {
			t.Errorf("%d %q policy %d: %s, want %s", c.status, c.retryAfter, c.rejected, got, c.want)
		}
		server.Close()
		h.Close()
	}
}

func TestHTTPKeepsItsConnections(t *testing.T) {
	var opened atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "an answer whose body has to be read")
	}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	h, err := deliver.NewHTTP(deliver.HTTPConfig{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if err := h.Handle(t.Context(), aRecord()); err != nil {
			t.Fatal(err)
		}
	}
	if n := opened.Load(); n != 1 {
		t.Errorf("%d connections for 20 requests", n)
	}
}

func TestHTTPEndsWithItsContextAndTimeout(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	defer close(release)
	h, err := deliver.NewHTTP(deliver.HTTPConfig{URL: server.URL, Timeout: 20 * time.Millisecond, Client: server.Client()})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Handle(t.Context(), aRecord()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the timeout", err)
	}
}

func TestHTTPRefusesURLsThatAreNone(t *testing.T) {
	for _, u := range []string{"", "localhost:80", "ftp://x", "http://", "http://%zz"} {
		if _, err := deliver.NewHTTP(deliver.HTTPConfig{URL: u}); err == nil {
			t.Errorf("%q was accepted", u)
		}
	}
}

func TestExecGetsTheRecordAndItsExitCodeCounts(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	h, err := deliver.NewExec("sh", "-c", `cat > "$0"; echo " $TENANT $KAFKA_TOPIC $KAFKA_PARTITION $KAFKA_OFFSET $ATTEMPT" >> "$0"`, out)
	if err != nil {
		t.Fatal(err)
	}
	if err = h(t.Context(), aRecord()); err != nil {
		t.Fatalf("delivering: %v", err)
	}
	got, err := os.ReadFile(out)
	if err != nil || string(got) != "body acme orders 3 42 2\n" {
		t.Errorf("the command got %q, %v", got, err)
	}
	for code, want := range map[string]string{"0": "done", "1": "retry", "65": "permanent"} {
		h, err := deliver.NewExec("sh", "-c", "echo why >&2; exit "+code)
		if err != nil {
			t.Fatal(err)
		}
		err = h(t.Context(), aRecord())
		if got := outcome(err); got != want {
			t.Errorf("exit %s: %s, want %s", code, got, want)
		}
	}
	if _, err := deliver.NewExec("no-such-command-anywhere"); err == nil {
		t.Error("a missing command was accepted")
	}
}

// A tenant with a zero byte has no TENANT: the worker's own must not stand in.
func TestExecInheritsNothingThatDescribesARecord(t *testing.T) {
	for _, name := range []string{"TENANT", "KAFKA_KEY", "KAFKA_TOPIC", "ATTEMPT"} {
		t.Setenv(name, "of another")
	}
	h, err := deliver.NewExec("sh", "-c", `! env | grep "of another" >&2`)
	if err != nil {
		t.Fatal(err)
	}
	r := aRecord()
	r.Tenant, r.Key = []byte("a\x00b"), []byte("k\x00")
	if err := h(t.Context(), r); err != nil {
		t.Errorf("inherited: %v", err)
	}
}

func TestExecIsKilledAtItsDeadline(t *testing.T) {
	h, err := deliver.NewExec("sleep", "60")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := h(ctx, aRecord()); err == nil {
		t.Error("the command outlived its deadline")
	}
}

func TestDiscardTakesItsTimeAndHeedsItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		if err := deliver.Discard(3*time.Second)(t.Context(), aRecord()); err != nil || time.Since(begin) != 3*time.Second {
			t.Errorf("took %v: %v", time.Since(begin), err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := deliver.Discard(time.Hour)(ctx, aRecord()); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}
