package lagwatch

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/lagwatch/mute"
)

// apiBody bounds what is posted.
const apiBody = 16 << 10

// SilenceRequest is what is posted to silence alerts.
type SilenceRequest struct {
	mute.Match
	// For is how long, like "2h".
	For    string `json:"for"`
	By     string `json:"by"`
	Reason string `json:"reason"`
}

// Journal is what people told the watcher.
type Journal struct {
	Silences []mute.Silence `json:"silences"`
	Markers  []Marker       `json:"markers"`
}

// registerAPI adds what changes the watcher, for holders of its token alone:
// without one there is no such path. A browser cannot be made to send it.
//
//	GET    /api/v1/journal         silences and markers
//	POST   /api/v1/silences        SilenceRequest ─▶ mute.Silence
//	DELETE /api/v1/silences/{id}
//	POST   /api/v1/markers         Marker ─▶ Marker
func (w *Watcher) registerAPI(mux *http.ServeMux) {
	if w.cfg.APIToken == "" {
		return
	}
	mux.Handle("GET /api/v1/journal", w.authorized(func(rw http.ResponseWriter, _ *http.Request) {
		var all Journal
		all.Silences, all.Markers = w.journal.list(time.Now())
		answerJSON(rw, http.StatusOK, all)
	}))
	mux.Handle("POST /api/v1/silences", w.authorized(w.postSilence))
	mux.Handle("DELETE /api/v1/silences/{id}", w.authorized(func(rw http.ResponseWriter, r *http.Request) {
		if !w.journal.endSilence(r.PathValue("id")) {
			answerError(rw, http.StatusNotFound, errors.New("there is no such silence"))
			return
		}
		w.log.Info("silence ended", zap.String("silence", r.PathValue("id")))
		w.noteTold()
		rw.WriteHeader(http.StatusNoContent)
	}))
	mux.Handle("POST /api/v1/markers", w.authorized(w.postMarker))
}

// authorized lets through who carries the token.
func (w *Watcher) authorized(next http.HandlerFunc) http.Handler {
	want := sha256.Sum256([]byte(w.cfg.APIToken.Reveal())) // tokens of any length are equally long to compare
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Cache-Control", "no-store")
		given, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		got := sha256.Sum256([]byte(given))
		if !bearer || subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			rw.Header().Set("WWW-Authenticate", "Bearer")
			answerError(rw, http.StatusUnauthorized, errors.New("the token is missing or wrong"))
			return
		}
		next(rw, r)
	})
}

func (w *Watcher) postSilence(rw http.ResponseWriter, r *http.Request) {
	var req SilenceRequest
	if !readJSON(rw, r, &req) {
		return
	}
	long, err := time.ParseDuration(req.For)
	if err != nil {
		answerError(rw, http.StatusBadRequest, errors.New("for: not a duration like 2h"))
		return
	}
	now := time.Now()
	s, err := w.journal.silence(mute.Silence{Match: req.Match, Until: now.Add(long), By: req.By, Reason: req.Reason}, now)
	if err != nil {
		answerError(rw, http.StatusBadRequest, err)
		return
	}
	w.log.Info("silence begins", zap.String("silence", s.ID), zap.String("alert", s.Alert), zap.String("group", s.Group),
		zap.String("topic", s.Topic), zap.Time("until", s.Until), zap.String("by", s.By), zap.String("reason", s.Reason))
	w.noteTold() // it must survive a restart
	answerJSON(rw, http.StatusCreated, s)
}

func (w *Watcher) postMarker(rw http.ResponseWriter, r *http.Request) {
	var m Marker
	if !readJSON(rw, r, &m) {
		return
	}
	m, err := w.journal.mark(m, time.Now())
	if err != nil {
		answerError(rw, http.StatusBadRequest, err)
		return
	}
	w.log.Info("marker", zap.String("text", m.Text), zap.String("group", m.Group), zap.String("by", m.By))
	w.noteTold()
	answerJSON(rw, http.StatusCreated, m)
}

// readJSON reads a body without unknown fields; false when it answered why not.
func readJSON(rw http.ResponseWriter, r *http.Request, into any) bool {
	d := json.NewDecoder(http.MaxBytesReader(rw, r.Body, apiBody))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil && d.Decode(new(any)) != io.EOF {
		err = errors.New("more than one object")
	}
	if err != nil {
		answerError(rw, http.StatusBadRequest, err)
		return false
	}
	return true
}

func answerJSON(rw http.ResponseWriter, status int, v any) {
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(status)
	_ = json.NewEncoder(rw).Encode(v) // a reader that went away
}

func answerError(rw http.ResponseWriter, status int, err error) {
	answerJSON(rw, status, map[string]string{"error": err.Error()})
}
