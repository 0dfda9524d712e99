package deliver

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tenantlane/tenantlane/consumer"
)

// HTTPConfig says how records are posted. URL is required.
type HTTPConfig struct {
	// URL takes the records, each as one POST with the value as its body.
	URL string
	// ContentType of the body. Default application/octet-stream.
	ContentType string
	// Timeout of one request, at most the handler's deadline. Default 10 s.
	Timeout time.Duration
	// Connections is how many connections are kept open: the worker's
	// concurrency. Default 100.
	Connections int
	// Rejected is what a 4xx answer means, other than 408, 425 and 429, which
	// ask for another try: Fatal (default), Retry or Skip.
	Rejected Rejected
	// Client replaces the HTTP client, for tests and for TLS of one's own.
	Client *http.Client
}

// Rejected is what an answer means that says the request is wrong.
type Rejected uint8

const (
	// RejectedFatal gives the record up: it is parked or dead-lettered, as
	// the runtime's Retry.Exhausted says.
	RejectedFatal Rejected = iota
	// RejectedRetry repeats it like any other failure.
	RejectedRetry
	// RejectedSkip steps over it, logged and counted.
	RejectedSkip
)

// Headers of a request, beside the record's own headers prefixed with
// "X-Kafka-Header-" where they are valid names and text. A tenant or key that
// is not printable ASCII, or begins or ends with a space, is percent-encoded.
const (
	HeaderTenant    = "X-Tenant"
	HeaderKey       = "X-Kafka-Key"
	HeaderTopic     = "X-Kafka-Topic"
	HeaderPartition = "X-Kafka-Partition"
	HeaderOffset    = "X-Kafka-Offset"
	HeaderAttempt   = "X-Attempt"
	HeaderTime      = "X-Kafka-Timestamp" // RFC 3339
)

// maxRetryAfter bounds a Retry-After that an endpoint may ask for, so that a
// wrong one does not stop a tenant for ever.
const maxRetryAfter = time.Hour

// maxAnswer is how much of an answer's body is read, to quote and so that the
// connection can be used again.
const maxAnswer = 4 << 10

// NewHTTP makes a target that posts records to a URL. 2xx is done; 429 and 503
// are tried again, no sooner than Retry-After says; other 4xx by policy;
// everything else is a failed attempt.
func NewHTTP(cfg HTTPConfig) (*HTTP, error) {
	target, err := url.Parse(cfg.URL)
	switch {
	case err != nil:
		return nil, fmt.Errorf("URL %q: %w", cfg.URL, err)
	case target.Scheme != "http" && target.Scheme != "https":
		return nil, fmt.Errorf("URL %q: scheme %q is neither http nor https", cfg.URL, target.Scheme)
	case target.Host == "":
		return nil, fmt.Errorf("URL %q names no host", cfg.URL)
	case cfg.Rejected > RejectedSkip:
		return nil, fmt.Errorf("Rejected %d is unknown", cfg.Rejected)
	}
	if cfg.ContentType == "" {
		cfg.ContentType = "application/octet-stream"
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 10 * time.Second
	}
	if cfg.Client == nil {
		cfg.Client = newClient(cfg.Connections)
	}
	return &HTTP{cfg: cfg, target: target}, nil
}

// newClient keeps a connection for each concurrent handler: the default client
// keeps two per host and opens and closes all others.
func newClient(connections int) *http.Client {
	if connections <= 0 {
		connections = 100
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns = connections
	transport.MaxIdleConnsPerHost = connections
	return &http.Client{
		Transport: transport,
		// A redirect would turn the POST into a GET without its body.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// HTTP is a target that posts records to a URL.
type HTTP struct {
	cfg    HTTPConfig
	target *url.URL
}

// Close closes connections that are not in use. Call it after the last Handle.
func (p *HTTP) Close() { p.cfg.Client.CloseIdleConnections() }

// Handle posts one record; it is a consumer.Handler.
func (p *HTTP) Handle(ctx context.Context, r *consumer.Record) error {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.target.String(), bytes.NewReader(r.Value))
	if err != nil {
		return fmt.Errorf("making the request: %w", err)
	}
	setHeaders(req.Header, r)
	req.Header.Set("Content-Type", p.cfg.ContentType)
	resp, err := p.cfg.Client.Do(req)
	if err != nil {
		return fmt.Errorf("posting: %w", err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil && resp.StatusCode/100 != 2 {
		return fmt.Errorf("reading the answer %s: %w", resp.Status, err)
	}
	return p.judge(resp, answer)
}

func (p *HTTP) judge(resp *http.Response, answer []byte) error {
	if resp.StatusCode/100 == 2 {
		return nil
	}
	err := &StatusError{Code: resp.StatusCode, Answer: quotable(answer)}
	switch code := resp.StatusCode; {
	case code == http.StatusTooManyRequests, code == http.StatusServiceUnavailable:
		if after, ok := retryAfter(resp.Header.Get("Retry-After"), time.Now()); ok {
			return fmt.Errorf("%w, %w", err, consumer.RetryAfter(after))
		}
		return err
	case code == http.StatusRequestTimeout, code == http.StatusTooEarly, code/100 != 4:
		return err
	}
	switch p.cfg.Rejected {
	case RejectedRetry:
		return err
	case RejectedSkip:
		return consumer.Skip(err.Error())
	}
	return consumer.Permanent(err)
}

// StatusError is an answer other than 2xx.
type StatusError struct {
	Code   int
	Answer string // the beginning of the body
}

// Error names the status and quotes the answer.
func (e *StatusError) Error() string {
	text := fmt.Sprintf("endpoint answered %d %s", e.Code, http.StatusText(e.Code))
	if e.Answer != "" {
		text += ": " + e.Answer
	}
	return text
}

// quotable is the beginning of an answer, if it is text.
func quotable(answer []byte) string {
	answer = bytes.TrimSpace(answer)
	if !utf8.Valid(answer) {
		return ""
	}
	if len(answer) > 200 {
		answer = append(bytes.ToValidUTF8(answer[:200:200], nil), "…"...)
	}
	return string(answer)
}

// retryAfter reads the header: seconds, or an HTTP date.
func retryAfter(value string, now time.Time) (time.Duration, bool) {
	if value == "" {
		return 0, false
	}
	if seconds, err := strconv.ParseInt(value, 10, 64); err == nil {
		if seconds < 0 {
			return 0, false
		}
		return min(time.Duration(min(seconds, int64(maxRetryAfter/time.Second)))*time.Second, maxRetryAfter), true
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	return min(max(at.Sub(now), 0), maxRetryAfter), true
}

func setHeaders(h http.Header, r *consumer.Record) {
	for i := range r.Headers {
		if name, value := r.Headers[i].Key, string(r.Headers[i].Value); validName(name) && printable(value) {
			h.Add("X-Kafka-Header-"+name, value)
		}
	}
	h.Set(HeaderTenant, encode(r.Tenant))
	if r.Key != nil {
		h.Set(HeaderKey, encode(r.Key))
	}
	h.Set(HeaderTopic, r.Topic)
	h.Set(HeaderPartition, strconv.Itoa(int(r.Partition)))
	h.Set(HeaderOffset, strconv.FormatInt(r.Offset, 10))
	h.Set(HeaderAttempt, strconv.Itoa(r.Attempt))
	h.Set(HeaderTime, r.Timestamp.UTC().Format(time.RFC3339Nano))
}

func encode(b []byte) string {
	s := string(b)
	// A header's value loses the spaces around it, and what is encoded is told
	// by its percent signs.
	if printable(s) && !strings.Contains(s, "%") && strings.Trim(s, " ") == s {
		return s
	}
	return url.PathEscape(s)
}

func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// validName says that a record header's key can be part of a header's name.
func validName(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return s != ""
}
