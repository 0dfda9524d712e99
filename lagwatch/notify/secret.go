package notify

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Secret is a value that must not be printed. Use Reveal where it is needed.
type Secret string

const hidden = "<hidden>"

// String hides the secret; an empty one is empty.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return hidden
}

// GoString hides the secret from %#v.
func (s Secret) GoString() string { return s.String() }

// Format hides the secret from every verb.
func (s Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.String()) }

// MarshalText hides the secret from JSON and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Reveal returns the secret itself.
func (s Secret) Reveal() string { return string(s) }

// SignatureHeader carries a webhook's time and signature:
// "t=<unix seconds>,v1=<hex HMAC-SHA256 of t, a dot, and the body>".
const SignatureHeader = "X-Tenantlane-Signature"

// Sign returns the value of SignatureHeader for a body sent at a time.
func Sign(secret Secret, at time.Time, body []byte) string {
	t := strconv.FormatInt(at.Unix(), 10)
	return "t=" + t + ",v1=" + hex.EncodeToString(mac(secret, t, body))
}

func mac(secret Secret, t string, body []byte) []byte {
	h := hmac.New(sha256.New, []byte(secret.Reveal()))
	h.Write([]byte(t))
	h.Write([]byte{'.'})
	h.Write(body)
	return h.Sum(nil)
}

// ErrSignature is returned by Verify for a header that does not prove the
// body's origin and age.
var ErrSignature = errors.New("webhook signature does not match")

// Verify checks a SignatureHeader in constant time: the body is what was
// signed, not longer than tolerance ago, nor in the future by more than that.
// Receivers of the webhook may use it, or do the same.
func Verify(secret Secret, header string, body []byte, now time.Time, tolerance time.Duration) error {
	t, signature, ok := strings.Cut(header, ",v1=")
	if t, ok = cutPrefix(t, "t=", ok); !ok {
		return fmt.Errorf("%w: malformed header", ErrSignature)
	}
	seconds, err := strconv.ParseInt(t, 10, 64)
	if err != nil {
		return fmt.Errorf("%w: malformed time", ErrSignature)
	}
	if age := now.Sub(time.Unix(seconds, 0)); age > tolerance || age < -tolerance {
		return fmt.Errorf("%w: signed %v ago", ErrSignature, age)
	}
	got, err := hex.DecodeString(signature)
	if err != nil || !hmac.Equal(got, mac(secret, t, body)) {
		return ErrSignature
	}
	return nil
}

func cutPrefix(s, prefix string, ok bool) (string, bool) {
	rest, found := strings.CutPrefix(s, prefix)
	return rest, ok && found
}
