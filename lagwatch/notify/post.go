package notify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Target is one pager.
type Target interface {
	// Name tells targets apart in metrics, logs and State.
	Name() string
	// Send delivers the alerts; a failure of the other side is a *SendError.
	Send(ctx context.Context, alerts []Alert) error
}

// minimizer is a Target that can say less when the full payload is refused.
type minimizer interface {
	SendMinimal(ctx context.Context, alerts []Alert) error
}

// renotifier is a Target that wants firing alerts again after a while.
type renotifier interface {
	Renotify() time.Duration
}

// wanter is a Target that does not want every alert.
type wanter interface {
	Wants(a *Alert) bool
}

// watchdogger is a Target that wants the alert that always fires.
type watchdogger interface {
	Watchdog() bool
}

// WatchdogAlert is the name of the alert that always fires. Only targets that
// notice its absence are told of it.
const WatchdogAlert = "watchdog"

// Watchdog is true for a target that notices when nothing is sent any more.
func Watchdog(t Target) bool {
	w, ok := t.(watchdogger)
	return ok && w.Watchdog()
}

// accounted is a Target that knows alerts by the key they were opened under.
type accounted interface {
	Account() string
}

func account(t Target) string {
	if a, ok := t.(accounted); ok {
		return a.Account()
	}
	return ""
}

// silencer is a Target with silences of its own.
type silencer interface {
	Silences() bool
}

func silences(t Target) bool {
	s, ok := t.(silencer)
	return ok && s.Silences()
}

// skewed is a Target that knows how far the other side's clock is off.
type skewed interface {
	ClockSkew() time.Duration
}

// SendError is a delivery that the other side did not take.
type SendError struct {
	// Status is the HTTP status, 0 when no answer came.
	Status int
	// RetryAfter is how long the other side asks to wait; 0: it did not say.
	RetryAfter time.Duration
	// Done is how many alerts, from the first, were taken nevertheless.
	Done int
	// Err is what happened, without secrets.
	Err error
}

// Error says what happened.
func (e *SendError) Error() string {
	if e.Status == 0 {
		return e.Err.Error()
	}
	return fmt.Sprintf("status %d: %v", e.Status, e.Err)
}

// Unwrap returns the cause.
func (e *SendError) Unwrap() error { return e.Err }

// Temporary is true when trying the same again may help.
func (e *SendError) Temporary() bool {
	return e.Status == 0 || e.Status == http.StatusTooManyRequests || e.Status >= 500 || e.Status == http.StatusRequestTimeout
}

const (
	postTimeout = 10 * time.Second
	answerLimit = 4 << 10
)

// poster posts JSON. It follows no redirect: a pager that moved must be
// configured anew, and a hijacked one must not pass alerts on.
type poster struct {
	client http.Client
}

func newPoster(transport http.RoundTripper) poster {
	return poster{http.Client{
		Transport: transport, Timeout: postTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// post sends a body and returns the answer's headers, never nil, and a
// *SendError unless it was taken.
func (p *poster) post(ctx context.Context, to Secret, body []byte, header http.Header) (http.Header, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.Reveal(), bytes.NewReader(body))
	if err != nil {
		return http.Header{}, &SendError{Err: errors.New("the URL cannot be used")}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "tenantlane-lagwatch")
	maps.Copy(req.Header, header)
	resp, err := p.client.Do(req)
	if err != nil {
		return http.Header{}, &SendError{Err: withoutURL(err)}
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, answerLimit))
	if resp.StatusCode/100 == 2 {
		return resp.Header, nil
	}
	if err != nil || len(answer) == 0 {
		answer = []byte(http.StatusText(resp.StatusCode))
	}
	return resp.Header, &SendError{
		Status: resp.StatusCode, RetryAfter: retryAfter(resp.Header), Err: fmt.Errorf("%.200q", answer),
	}
}

// withoutURL removes what net/http adds: a Slack URL is a secret.
func withoutURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// retryAfter reads the header's seconds or date.
func retryAfter(h http.Header) time.Duration {
	v := h.Get("Retry-After")
	if s, err := strconv.Atoi(v); err == nil && s > 0 {
		return time.Duration(s) * time.Second
	}
	if t, err := http.ParseTime(v); err == nil {
		return max(time.Until(t), 0)
	}
	return 0
}

// checkURL names a URL that cannot be posted to, without printing it.
func checkURL(u Secret) error {
	parsed, err := url.Parse(u.Reveal())
	if err != nil || parsed.Host == "" || parsed.Scheme != "http" && parsed.Scheme != "https" {
		return errors.New("URL: must be http(s)://host/…")
	}
	return nil
}
