package lagwatch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/tenantlane/tenantlane/lagwatch/mute"
	"github.com/tenantlane/tenantlane/lagwatch/notify"
)

// Client tells a running watcher what people know: silences and markers. It
// follows no redirects, so that the token goes to nobody else.
type Client struct {
	base  *url.URL
	token notify.Secret
	http  *http.Client
}

// StatusError is a watcher's refusal.
type StatusError struct {
	Status int
	// Text is why; empty when it was not this API that answered.
	Text string
}

// Error says what the watcher answered.
func (e *StatusError) Error() string {
	if e.Text == "" {
		return fmt.Sprintf("status %d", e.Status)
	}
	return e.Text
}

// clientTimeout bounds a call.
const clientTimeout = 10 * time.Second

// NewClient returns a client of a watcher's listener, like
// "http://127.0.0.1:9401"; the error says what is wrong with the address.
func NewClient(at string, token notify.Secret) (*Client, error) {
	base, err := url.Parse(at)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, fmt.Errorf("%q is not an address like http://127.0.0.1:9401", at)
	}
	return &Client{base, token, &http.Client{
		Timeout: clientTimeout, Transport: http.DefaultTransport.(*http.Transport).Clone(),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Close lets idle connections go.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Silence begins one, and returns it with its id.
func (c *Client) Silence(ctx context.Context, req SilenceRequest) (*mute.Silence, error) {
	var s mute.Silence
	return &s, c.call(ctx, http.MethodPost, "silences", req, &s)
}

// EndSilence ends one now.
func (c *Client) EndSilence(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodDelete, "silences/"+url.PathEscape(id), nil, nil)
}

// Mark adds a marker; without a time it is of now.
func (c *Client) Mark(ctx context.Context, m Marker) (*Marker, error) {
	return &m, c.call(ctx, http.MethodPost, "markers", m, &m)
}

// Journal is all silences that are not over, and the markers.
func (c *Client) Journal(ctx context.Context) (*Journal, error) {
	var all Journal
	return &all, c.call(ctx, http.MethodGet, "journal", nil, &all)
}

func (c *Client) call(ctx context.Context, method, path string, body, into any) error {
	var sent io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("request: %w", err)
		}
		sent = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base.JoinPath("api/v1", path).String(), sent)
	if err != nil {
		return fmt.Errorf("request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token.Reveal())
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return decodeAnswer(resp, into)
}

func decodeAnswer(resp *http.Response, into any) error {
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	if resp.StatusCode/100 != 2 {
		var said struct{ Error string }
		_ = json.Unmarshal(text, &said) // another server's page has none
		return &StatusError{resp.StatusCode, said.Error}
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(text, into); err != nil {
		return errors.New("the answer is not lagwatch's")
	}
	return nil
}
