package partitioner

import (
	"bytes"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// TenantOf takes the tenant out of a record as a topic's rule says, for
// producers and workers alike. ok is false when the record has none: an absent
// or empty key or header, or a key without the separator (a key that was not
// built by the rule must not become a tenant by accident). The result shares
// the record's memory; nothing is allocated.
func TenantOf(rule routing.TenantRule, r *kgo.Record) (tenant []byte, ok bool) {
	switch rule.From {
	case routing.FromKey:
		tenant = r.Key
	case routing.FromHeader:
		tenant = lastHeader(r.Headers, rule.Arg)
	case routing.FromPrefix:
		tenant = before(r.Key, rule.Arg)
	}
	return tenant, len(tenant) > 0
}

// lastHeader gives the value of the last header of a name, as Java's
// Headers.lastHeader does.
func lastHeader(headers []kgo.RecordHeader, name string) []byte {
	for _, header := range slices.Backward(headers) {
		if header.Key == name {
			return header.Value
		}
	}
	return nil
}

// before gives what stands in front of the first separator, or nil without
// one. bytes.Cut would have to copy sep.
func before(key []byte, sep string) []byte {
	if sep == "" {
		return nil
	}
	for at := 0; ; at++ {
		i := bytes.IndexByte(key[at:], sep[0])
		if i < 0 || at+i+len(sep) > len(key) {
			return nil
		}
		at += i
		if string(key[at:at+len(sep)]) == sep {
			return key[:at]
		}
	}
}
