package notify

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"time"
)

// Alert is one alert as it leaves. The first five fields identify it.
type Alert struct {
	Name    string `json:"alert"`
	Cluster string `json:"cluster"`
	Group   string `json:"group"`
	Topic   string `json:"topic"`
	Pool    string `json:"pool"`

	// Severity is "ticket", "page" or "critical".
	Severity string `json:"severity"`
	// Since is when what fires began; ResolvedAt is zero while it fires.
	Since      time.Time `json:"since"`
	ResolvedAt time.Time `json:"resolved_at,omitzero"`
	Partitions []int32   `json:"partitions,omitempty"`
	Class      string    `json:"class,omitempty"`
	// Tenant is who caused it, when known, with its share of the sample.
	Tenant    string  `json:"tenant,omitempty"`
	TenantHex string  `json:"tenant_hex,omitempty"`
	Share     float64 `json:"share,omitempty"`
	// Summary is one sentence for a person: what, since when, how bad.
	Summary string `json:"summary"`
	// Impact is what it means for whoever is waiting, in a sentence.
	Impact string `json:"impact,omitempty"`
	// Markers are deploys and other changes that were announced about the time
	// when it began, newest last.
	Markers []string `json:"markers,omitempty"`
	// Commands are what to run first.
	Commands []string `json:"commands,omitempty"`
	Runbook  string   `json:"runbook,omitempty"`
	// Owner is who the group belongs to.
	Owner string `json:"owner,omitempty"`
	// Values are the numbers behind it.
	Values map[string]float64 `json:"values,omitempty"`
}

// Key is the alert's dedup key: the hex SHA-256 of its identity.
func (a *Alert) Key() string {
	h := sha256.New()
	for _, s := range []string{a.Name, a.Cluster, a.Group, a.Topic, a.Pool} {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(s)))
		h.Write(n[:])
		h.Write([]byte(s))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Status is "firing" or "resolved".
func (a *Alert) Status() string {
	if a.ResolvedAt.IsZero() {
		return "firing"
	}
	return "resolved"
}

// loudness orders severities.
func loudness(severity string) int {
	switch severity {
	case "critical":
		return 2
	case "page":
		return 1
	}
	return 0
}
