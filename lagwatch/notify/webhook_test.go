package notify_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tenantlane/tenantlane/lagwatch/notify"
)

func webhook(t *testing.T, url string) *notify.Webhook {
	t.Helper()
	w, err := notify.NewWebhook(notify.WebhookConfig{URL: notify.Secret(url), Secret: "hunter2"})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})
	return s.URL
}

func TestWebhookIsSignedAndComplete(t *testing.T) {
	t.Parallel()
	var body notify.WebhookBody
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if err := notify.Verify("hunter2", r.Header.Get(notify.SignatureHeader), data, time.Now(), time.Minute); err != nil {
			t.Error(err)
		}
		if err := json.Unmarshal(data, &body); err != nil {
			t.Error(err)
		}
	})
	a := hot("page")
	a.Tenant, a.Share, a.Partitions = "acme", 0.9, []int32{7}
	if err := webhook(t, url).Send(t.Context(), []notify.Alert{a}); err != nil {
		t.Fatal(err)
	}
	got := body.Alerts[0]
	if body.Version != 1 || got.Status != "firing" || got.DedupKey != a.Key() || got.Tenant != "acme" || got.Partitions[0] != 7 {
		t.Fatalf("body %+v", body)
	}
}

func TestAnswersAreTemporaryOrNot(t *testing.T) {
	t.Parallel()
	for status, temporary := range map[int]bool{400: false, 404: false, 413: false, 429: true, 500: true, 503: true, 302: false} {
		url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://127.0.0.1:1/elsewhere")
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(status)
			fmt.Fprint(w, strings.Repeat("x", 100_000))
		})
		err := webhook(t, url).Send(t.Context(), []notify.Alert{hot("page")})
		var se *notify.SendError
		if !errors.As(err, &se) || se.Status != status || se.Temporary() != temporary || se.RetryAfter != 7*time.Second {
			t.Errorf("status %d: %v", status, err)
		}
		if len(err.Error()) > 300 {
			t.Errorf("status %d: an error of %d bytes", status, len(err.Error()))
		}
	}
}

func TestSlowReceiverEndsWithTheContext(t *testing.T) {
	t.Parallel()
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := webhook(t, url+"/T0KEN").Send(ctx, []notify.Alert{hot("page")})
	var se *notify.SendError
	if !errors.As(err, &se) || !se.Temporary() || strings.Contains(err.Error(), "T0KEN") {
		t.Fatal(err)
	}
}

func TestBadURLIsRefusedWithoutPrintingIt(t *testing.T) {
	t.Parallel()
	for _, u := range []notify.Secret{"", "ftp://h/T0KEN", "://T0KEN", "/T0KEN"} {
		_, err := notify.NewWebhook(notify.WebhookConfig{URL: u})
		if err == nil || !strings.Contains(err.Error(), "URL") || strings.Contains(err.Error(), "T0KEN") {
			t.Errorf("%v", err)
		}
	}
}

func TestSecretsDoNotPrint(t *testing.T) {
	t.Parallel()
	cfg := notify.WebhookConfig{URL: "http://h/T0KEN", Secret: "hunter2"}
	data, err := json.Marshal(struct{ URL, Secret notify.Secret }{cfg.URL, cfg.Secret})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{fmt.Sprintf("%v %+v %#v %s %q %x", cfg, cfg, cfg, cfg.Secret, cfg.Secret, cfg.Secret), string(data)} {
		if strings.Contains(text, "T0KEN") || strings.Contains(text, "hunter2") || strings.Contains(text, "68756e746572") {
			t.Errorf("printed: %s", text)
		}
	}
}

func TestVerifyRefusesWhatWasNotSigned(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	body := []byte(`{"version":1}`)
	good := notify.Sign("k", now, body)
	if err := notify.Verify("k", good, body, now.Add(59*time.Second), time.Minute); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		header string
		body   string
		now    time.Time
	}{
		"another body":     {good, `{"version":2}`, now},
		"too old":          {good, string(body), now.Add(2 * time.Minute)},
		"from the future":  {good, string(body), now.Add(-2 * time.Minute)},
		"another key":      {notify.Sign("other", now, body), string(body), now},
		"no header":        {"", string(body), now},
		"no time":          {"v1=00", string(body), now},
		"garbage":          {"t=x,v1=zz", string(body), now},
		"garbage in hex":   {fmt.Sprintf("t=%d,v1=zz", now.Unix()), string(body), now},
		"time was changed": {strings.Replace(good, "t=1700000000", "t=1700000001", 1), string(body), now},
	} {
		if err := notify.Verify("k", c.header, []byte(c.body), c.now, time.Minute); !errors.Is(err, notify.ErrSignature) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzVerify(f *testing.F) {
	f.Add("t=1700000000,v1=00", []byte("{}"))
	f.Add(notify.Sign("other", time.Unix(1_700_000_000, 0), []byte("{}")), []byte("{}"))
	f.Fuzz(func(t *testing.T, header string, body []byte) {
		if notify.Verify("a key that nobody has", header, body, time.Unix(1_700_000_000, 0), time.Hour) == nil {
			t.Fatalf("forged: %q", header)
		}
	})
}

func ExampleVerify() {
	secret, body := notify.Secret("shared with the receiver"), []byte(`{"version":1,"alerts":[]}`)
	sent := time.Now()
	header := notify.Sign(secret, sent, body) // what lagwatch puts into X-Tenantlane-Signature
	fmt.Println(notify.Verify(secret, header, body, time.Now(), 5*time.Minute))
	// Output: <nil>
}
