package lagwatch_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tenantlane/tenantlane/lagwatch"
	"github.com/tenantlane/tenantlane/lagwatch/lag"
	"github.com/tenantlane/tenantlane/lagwatch/mute"
	"github.com/tenantlane/tenantlane/lagwatch/notify"
)

const apiToken = "t0ken-of-the-watcher"

// api is a client of a watcher that is served.
func api(t *testing.T, w *lagwatch.Watcher, token notify.Secret) *lagwatch.Client {
	t.Helper()
	server := httptest.NewServer(w.Handler())
	t.Cleanup(server.Close)
	c, err := lagwatch.NewClient(server.URL, token)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// A silenced alert fires and is shown, but pages only once the silence is over;
// a restart in the middle keeps the silence, and the deploy that was announced.
func TestSilenceHoldsAPageBackAndSurvivesARestart(t *testing.T) {
	t.Parallel()
	c := hotCluster(t)
	target, got := receiver(t)
	file := filepath.Join(t.TempDir(), "state")
	seen := make(chan *lagwatch.Evaluation, 10_000)
	start := func() (*lagwatch.Watcher, func()) {
		w := c.watcher(func(cfg *lagwatch.Config) {
			cfg.Rule, cfg.Targets, cfg.StateFile, cfg.APIToken = fast(), []notify.Target{target}, file, apiToken
			cfg.OnEvaluation = func(e *lagwatch.Evaluation) { seen <- e }
		})
		return w, running(t, w)
	}
	w := c.watcher(func(cfg *lagwatch.Config) { cfg.APIToken, cfg.StateFile = apiToken, file })
	silence, err := api(t, w, apiToken).Silence(t.Context(), lagwatch.SilenceRequest{
		Match: mute.Match{Group: "bill*"}, For: "1h", By: "ops", Reason: "import",
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := api(t, w, apiToken).Mark(t.Context(), lagwatch.Marker{Text: "billing 2.4.1", Group: "billing", By: "ci"}); err != nil {
		t.Fatal(err)
	}
	stop := running(t, w) // saves on its way out
	stop()

	w, stop = start()
	defer func() { stop() }()
	for e := range seen {
		if p := poolNamed(e, "billing"); p != nil && alertIn(p, lag.AlertHot) {
			if len(e.Muted) == 0 || len(e.Silences) != 1 {
				t.Fatalf("not shown as muted: %s", asJSON(t, e))
			}
			break
		}
	}
	if err := w.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	for len(got) > 0 {
		if a := <-got; a.Name == lag.AlertHot {
			t.Fatal("paged under a silence")
		}
	}
	if err := api(t, w, apiToken).EndSilence(t.Context(), silence.ID); err != nil {
		t.Fatal(err)
	}
	a := next(t, got, lag.AlertHot)
	if len(a.Markers) != 1 || !strings.Contains(a.Markers[0], "billing 2.4.1 (ci)") || a.Impact == "" {
		t.Fatalf("%s", asJSON(t, a))
	}
}

func poolNamed(e *lagwatch.Evaluation, group string) *lagwatch.PoolEvaluation {
	for i := range e.Groups {
		if e.Groups[i].Group == group {
			return &e.Groups[i]
		}
	}
	return nil
}

// Without a token in the configuration nothing can be changed, with one only
// its holders can; requests that make no sense are refused with the field.
func TestOnlyHoldersOfTheTokenChangeAnything(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	w := c.watcher(func(cfg *lagwatch.Config) { cfg.APIToken = apiToken })
	status := func(w *lagwatch.Watcher, method, path, token, body string) (int, string) {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		if token != "" {
			r.Header.Set("Authorization", token)
		}
		rec := httptest.NewRecorder()
		w.Handler().ServeHTTP(rec, r)
		return rec.Code, rec.Body.String()
	}
	good := `{"group":"billing","for":"1h","by":"ops","reason":"import"}`
	for _, route := range []string{"POST /api/v1/silences", "POST /api/v1/markers", "DELETE /api/v1/silences/x", "GET /api/v1/journal"} {
		method, path, _ := strings.Cut(route, " ")
		for _, token := range []string{"", "Bearer", "Bearer wrong", "Basic " + apiToken, apiToken} {
			if got, _ := status(w, method, path, token, good); got != http.StatusUnauthorized {
				t.Errorf("%s %s with %q: %d", method, path, token, got)
			}
		}
		if got, _ := status(c.watcher(nil), method, path, "Bearer "+apiToken, good); got != http.StatusNotFound && got != http.StatusMethodNotAllowed {
			t.Errorf("%s %s of a watcher without a token: %d", method, path, got)
		}
	}
	for body, want := range map[string]string{
		`{"for":"1h","reason":"x"}`:                       "by",
		`{"for":"1h","by":"x"}`:                           "reason",
		`{"for":"soon","by":"x","reason":"x"}`:            "for",
		`{"for":"-1h","by":"x","reason":"x"}`:             "until",
		`{"for":"1h","by":"x","reason":"x","grupo":"y"}`:  "grupo",
		`{"for":"1h","by":"x","reason":"x","group":"["}`:  "group",
		`{"for":"1h","by":"x","reason":"x"} {}`:           "more than one",
		strings.Repeat(" ", 20<<10) + `{"for":"1h"}`:      "too large",
		`{"for":"9000h","by":"x","reason":"x"}`:           "720h",
		`{"for":"1h","by":"x","reason":"x","alert":"[a"}`: "alert",
	} {
		if got, text := status(w, "POST", "/api/v1/silences", "Bearer "+apiToken, body); got != http.StatusBadRequest || !strings.Contains(text, want) {
			t.Errorf("%.60s: %d %s", body, got, text)
		}
	}
	if got, text := status(w, "POST", "/api/v1/markers", "Bearer "+apiToken, `{"text":"x","at":"2999-01-01T00:00:00Z"}`); got != http.StatusBadRequest {
		t.Errorf("%d %s", got, text)
	}
	if got, _ := status(w, "DELETE", "/api/v1/silences/none", "Bearer "+apiToken, ""); got != http.StatusNotFound {
		t.Errorf("%d", got)
	}
	_, err := api(t, w, "wrong").Journal(t.Context())
	if se, ok := errors.AsType[*lagwatch.StatusError](err); !ok || se.Status != http.StatusUnauthorized || strings.Contains(err.Error(), "wrong token") {
		t.Errorf("%v", err)
	}
}

// A maintenance window in the configuration holds pages back as well.
func TestMaintenanceWindowHoldsPagesBack(t *testing.T) {
	t.Parallel()
	c := hotCluster(t)
	target, got := receiver(t)
	seen := make(chan *lagwatch.Evaluation, 10_000)
	w := c.watcher(func(cfg *lagwatch.Config) {
		cfg.Rule, cfg.Targets = fast(), []notify.Target{target}
		cfg.Maintenance = []mute.Window{{
			Name: "rebuild", Match: mute.Match{Topic: "orders"}, From: time.Now().Add(-time.Hour), Until: time.Now().Add(time.Hour),
		}}
		cfg.OnEvaluation = func(e *lagwatch.Evaluation) { seen <- e }
	})
	stop := running(t, w)
	for e := range seen {
		if p := poolNamed(e, "billing"); p != nil && alertIn(p, lag.AlertHot) {
			break
		}
	}
	if err := w.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	stop()
	if len(got) > 0 {
		t.Fatalf("paged: %s", asJSON(t, <-got))
	}
}

// The token is in no state file, page or answer.
func TestTokenIsNowhere(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	file := filepath.Join(t.TempDir(), "state")
	w := c.watcher(func(cfg *lagwatch.Config) { cfg.APIToken, cfg.StateFile = apiToken, file })
	client := api(t, w, apiToken)
	if _, err := client.Mark(t.Context(), lagwatch.Marker{Text: "deploy"}); err != nil {
		t.Fatal(err)
	}
	all, err := client.Journal(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stop := running(t, w)
	stop()
	state, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	journal, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	rec := httptest.NewRecorder()
	w.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/", nil))
	for _, text := range []string{string(state), string(journal), rec.Body.String()} {
		if strings.Contains(text, apiToken) {
			t.Errorf("the token is in %s", text)
		}
	}
}
