package admin

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tenantlane/tenantlane/consumer"
)

// Client asks one worker's Server.
type Client struct {
	base  *url.URL
	token string
	http  *http.Client
}

// NewClient makes a client of the worker at a URL, or at host:port. Close it
// after use.
func NewClient(at, token string) (*Client, error) { return NewTLSClient(at, token, nil) }

// NewTLSClient is NewClient with a configuration for HTTPS, which host:port
// means then. Nil: plain HTTP, and the system's certificates for https URLs.
func NewTLSClient(at, token string, cfg *tls.Config) (*Client, error) {
	switch {
	case strings.Contains(at, "://"):
	case cfg != nil:
		at = "https://" + at
	default:
		at = "http://" + at
	}
	base, err := url.Parse(at)
	if err != nil {
		return nil, fmt.Errorf("worker %q: %w", at, err)
	}
	if base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, fmt.Errorf("worker %q: want http://host:port", at)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = cfg
	return &Client{base: base, token: token, http: &http.Client{Timeout: actTimeout + readTimeout, Transport: transport}}, nil
}

// Close closes connections that are not in use.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// StatusError is an answer that says no.
type StatusError struct {
	Status int    // of HTTP
	Text   string // what the worker says
}

// Error is what the worker says.
func (e *StatusError) Error() string { return e.Text }

// Tenants lists tenants, those that want a look first; filter.Most 0 is 100.
func (c *Client) Tenants(ctx context.Context, filter consumer.TenantFilter) (list []Tenant, err error) {
	q := url.Values{}
	if filter.Most > 0 {
		q.Set("limit", strconv.Itoa(filter.Most))
	}
	if filter.State != "" {
		q.Set("state", string(filter.State))
	}
	return list, c.do(ctx, http.MethodGet, "/v1/tenants?"+q.Encode(), nil, &list)
}

// Tenant describes one tenant.
func (c *Client) Tenant(ctx context.Context, name []byte) (one Tenant, err error) {
	return one, c.do(ctx, http.MethodGet, "/v1/tenant?hex="+hex.EncodeToString(name)+nameless(name), nil, &one)
}

// nameless asks for the records without a tenant, which have no bytes to show.
func nameless(name []byte) string {
	if len(name) == 0 {
		return "&name="
	}
	return ""
}

// Partitions tells how far each partition is.
func (c *Client) Partitions(ctx context.Context) (list []Partition, err error) {
	return list, c.do(ctx, http.MethodGet, "/v1/partitions", nil, &list)
}

// Pause pauses a tenant.
func (c *Client) Pause(ctx context.Context, tenant []byte, act consumer.Act) (Effect, error) {
	return c.act(ctx, "pause", newOrder(tenant, act))
}

// Resume resumes a tenant.
func (c *Client) Resume(ctx context.Context, tenant []byte, act consumer.Act) (Effect, error) {
	return c.act(ctx, "resume", newOrder(tenant, act))
}

// Skip skips one record of a tenant.
func (c *Client) Skip(ctx context.Context, tenant []byte, at consumer.Place, act consumer.Act) (Effect, error) {
	o := newOrder(tenant, act)
	o.Topic, o.Partition, o.Offset = at.Topic, &at.Partition, &at.Offset
	return c.act(ctx, "skip", o)
}

// Limit limits a tenant; zero limits are the table's.
func (c *Client) Limit(ctx context.Context, tenant []byte, l consumer.Limits, act consumer.Act) error {
	o := newOrder(tenant, act)
	o.Weight, o.Concurrency, o.Rate, o.Burst = l.Weight, l.Concurrency, l.Rate, l.Burst
	_, err := c.act(ctx, "limit", o)
	return err
}

func newOrder(tenant []byte, act consumer.Act) *orderJSON {
	o := &orderJSON{Actor: act.Actor, Reason: act.Reason}
	if utf8.Valid(tenant) {
		o.Tenant = new(string(tenant))
	} else {
		o.TenantHex = hex.EncodeToString(tenant)
	}
	return o
}

func (c *Client) act(ctx context.Context, what string, o *orderJSON) (effect Effect, err error) {
	return effect, c.do(ctx, http.MethodPost, "/v1/"+what, o, &effect)
}

// do asks, and reads the answer into it.
func (c *Client) do(ctx context.Context, method, path string, body, into any) error {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("writing the request: %w", err)
		}
		content = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(c.base.String(), "/")+path, content)
	if err != nil {
		return fmt.Errorf("making the request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("asking the worker: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return refusal(resp)
	}
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		return fmt.Errorf("reading the worker's answer: %w", err)
	}
	return nil
}

// refusal is the error in an answer that says no.
func refusal(resp *http.Response) error {
	var said errorJSON
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxBody)).Decode(&said); err != nil || said.Error == "" {
		said.Error = "the answer is " + resp.Status + "; is this a worker's admin endpoint?"
	}
	return &StatusError{Status: resp.StatusCode, Text: said.Error}
}
