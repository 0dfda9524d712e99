package admin

import (
	"encoding/hex"
	"time"
	"unicode/utf8"

	"github.com/tenantlane/tenantlane/consumer"
)

// maxTenants is the most tenants in one answer.
const maxTenants = 10_000

// Tenant is a tenant's status as JSON. A time that there is none of is left
// out.
type Tenant struct {
	Tenant    string     `json:"tenant"`
	TenantHex string     `json:"tenant_hex,omitempty"` // its bytes, if it is not text
	Tier      string     `json:"tier"`
	State     string     `json:"state"`
	Depth     int        `json:"depth"`
	Bytes     int64      `json:"bytes"`
	Lanes     int        `json:"lanes"`
	Waiting   int        `json:"waiting"`    // lanes that wait for a move
	Skipped   int64      `json:"skipped"`    // offsets to be read again, at most
	OldestS   *float64   `json:"oldest_s"`   // age of the oldest record in memory
	Rate      float64    `json:"rate_per_s"` // finished a second, lately
	InFlight  int        `json:"in_flight"`
	MeanMS    float64    `json:"mean_ms"` // of one handling
	ETAS      *float64   `json:"eta_s"`   // null while it stands still
	PausedBy  string     `json:"paused_by,omitempty"`
	PausedFor string     `json:"paused_for,omitempty"` // the reason
	PausedAt  *time.Time `json:"paused_at,omitempty"`
	Troubles  []Trouble  `json:"troubles,omitempty"`
}

// Trouble is a record that holds up its lane, as JSON.
type Trouble struct {
	Topic     string     `json:"topic"`
	Partition int32      `json:"partition"`
	Offset    int64      `json:"offset"`
	Key       string     `json:"key,omitempty"`
	Parked    bool       `json:"parked"`
	Attempts  int        `json:"attempts"`
	Error     string     `json:"error,omitempty"`
	Since     *time.Time `json:"since,omitempty"`
}

// Partition is how far a partition is, as JSON. Numbers that are not known are
// -1.
type Partition struct {
	Topic       string `json:"topic"`
	Partition   int32  `json:"partition"`
	Watermark   int64  `json:"watermark"`
	Frontier    int64  `json:"frontier"`
	Next        int64  `json:"next"`
	End         int64  `json:"end"`
	Committed   int64  `json:"committed"`
	RunnableLag int64  `json:"runnable_lag"`
	Lanes       int    `json:"lanes"`
	Overflowing int    `json:"overflowing"`
	Waiting     int    `json:"waiting"`                // lanes that wait for a move
	BehindTable bool   `json:"behind_table,omitempty"` // it waits for the routing table
	Stopped     string `json:"stopped,omitempty"`
}

// Effect is what an act came to, as JSON.
type Effect struct {
	Lanes     int  `json:"lanes"`
	Committed bool `json:"committed"`
}

type errorJSON struct {
	Error string `json:"error"`
}

// orderJSON is the body of an act.
type orderJSON struct {
	Tenant    *string `json:"tenant,omitempty"` // "": records without a tenant
	TenantHex string  `json:"tenant_hex,omitempty"`
	Actor     string  `json:"actor,omitempty"`
	Reason    string  `json:"reason,omitempty"`

	Topic     string `json:"topic,omitempty"`
	Partition *int32 `json:"partition,omitempty"`
	Offset    *int64 `json:"offset,omitempty"`

	Weight      float64 `json:"weight,omitempty"`
	Concurrency int     `json:"concurrency,omitempty"`
	Rate        float64 `json:"rate,omitempty"`
	Burst       float64 `json:"burst,omitempty"`
}

// tenant is the tenant that is named.
func (o *orderJSON) tenant() ([]byte, error) {
	switch {
	case o.Tenant != nil && o.TenantHex != "":
		return nil, badRequest("give the tenant as text or in hexadecimal, not both")
	case o.Tenant != nil:
		return []byte(*o.Tenant), nil
	case o.TenantHex == "":
		return nil, badRequest("no tenant is named")
	}
	name, err := hex.DecodeString(o.TenantHex)
	if err != nil {
		return nil, badRequest("tenant %q is not hexadecimal: %w", o.TenantHex, err)
	}
	return name, nil
}

func tenantsJSON(all []consumer.TenantStatus) []Tenant {
	list := make([]Tenant, 0, len(all))
	for i := range all {
		list = append(list, tenantJSON(all[i]))
	}
	return list
}

func tenantJSON(st consumer.TenantStatus) Tenant {
	t := Tenant{
		Tier: st.Tier, State: string(st.State), Depth: st.Depth, Bytes: st.Bytes, Lanes: st.Lanes, Waiting: st.Waiting, Skipped: st.Skipped,
		Rate: st.Rate, InFlight: st.InFlight, MeanMS: st.Mean.Seconds() * 1e3, PausedBy: st.Pause.Actor, PausedFor: st.Pause.Reason,
		PausedAt: known(st.PausedAt),
	}
	t.Tenant, t.TenantHex = text(st.Tenant)
	if !st.Oldest.IsZero() {
		t.OldestS = new(time.Since(st.Oldest).Seconds())
	}
	if st.ETA >= 0 {
		t.ETAS = new(st.ETA.Seconds())
	}
	for i := range st.Troubles {
		t.Troubles = append(t.Troubles, troubleJSON(&st.Troubles[i]))
	}
	return t
}

func troubleJSON(st *consumer.Trouble) Trouble {
	key, _ := text(st.Key)
	return Trouble{
		Topic: st.Topic, Partition: st.Partition, Offset: st.Offset, Key: key,
		Parked: st.Parked, Attempts: st.Attempts, Error: st.Error, Since: known(st.Since),
	}
}

func partitionsJSON(all []consumer.PartitionStatus) []Partition {
	list := make([]Partition, 0, len(all))
	for _, st := range all {
		p := Partition{
			Topic: st.Topic, Partition: st.Partition, Watermark: st.Watermark, Frontier: st.Frontier, Next: st.Next,
			End: st.End, Committed: st.Committed, RunnableLag: st.RunnableLag, Lanes: st.Lanes, Overflowing: st.Overflowing, Waiting: st.Waiting, BehindTable: st.BehindTable,
		}
		if st.Stopped != nil {
			p.Stopped = st.Stopped.Error()
		}
		list = append(list, p)
	}
	return list
}

// known is a time that there is, or nil.
func known(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	return &at
}

// text is a name as text, with its bytes in hexadecimal if it is not valid.
func text(name []byte) (asText, asHex string) {
	if utf8.Valid(name) {
		return string(name), ""
	}
	return string([]rune(string(name))), hex.EncodeToString(name)
}
