package routing

import (
	"encoding/base64"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// YAML gives the table's canonical text: every topic, tenant and slot in
// order, one entry a line, defaults written out. Parse gives the same table
// back.
func (t *Table) YAML() ([]byte, error) {
	w := &yamlWriter{}
	w.line(0, "version", strconv.Itoa(formatVersion))
	w.line(0, "revision", strconv.FormatUint(t.revision, 10))
	if len(t.names) == 0 {
		w.line(0, "topics", "{}")
		return w.text, nil
	}
	w.line(0, "topics", "")
	for _, name := range t.names {
		w.topic(t.topics[name])
	}
	return w.text, nil
}

// yamlWriter appends lines. It is written by hand because a table is a fixed
// shape of short lines, and a node for each of 100,000 entries is not.
type yamlWriter struct{ text []byte }

func (w *yamlWriter) line(depth int, name, value string) {
	for range depth {
		w.text = append(w.text, "  "...)
	}
	w.text = append(w.text, name...)
	w.text = append(w.text, ':')
	if value != "" {
		w.text = append(w.text, ' ')
		w.text = append(w.text, value...)
	}
	w.text = append(w.text, '\n')
}

func (w *yamlWriter) topic(t *Topic) {
	w.line(1, yamlText(t.name), "")
	w.line(2, "partitions", strconv.Itoa(int(t.partitions)))
	w.line(2, "hash", t.hash.String())
	w.line(2, "slots", strconv.Itoa(int(t.slots)))
	w.line(2, "shared", strconv.Quote(FormatPartitions(t.shared)))
	w.line(2, "tenant_of", yamlText(t.tenantOf.String()))
	w.line(2, "producers", producersWord(t.wrapped))
	w.line(2, "strategy", strategyModulo)
	w.line(2, "epoch", strconv.FormatUint(t.epoch, 10))
	section(w, "slot_overrides", len(t.overrides), slices.Sorted(maps.Keys(t.overrides)), func(slot int32) (string, string) {
		return strconv.Itoa(int(slot)), yamlOverride(t.overrides[slot])
	})
	section(w, "placements", len(t.placed), t.placed, func(e *entry) (string, string) {
		return yamlText(e.tenant), yamlPlacement(&e.place)
	})
	section(w, "tiers", len(t.tiers), slices.Sorted(maps.Keys(t.tiers)), func(name string) (string, string) {
		return yamlText(name), yamlTier(t.tiers[name])
	})
	section(w, "tenants", len(t.tiered), t.tiered, func(e *entry) (string, string) {
		return yamlText(e.tenant), "{tier: " + yamlText(e.place.Tier) + "}"
	})
	moves := t.moves.all()
	section(w, "moves", len(moves), moves, func(m *Move) (string, string) { return yamlText(m.ID), yamlMove(m) })
}

func producersWord(wrapped bool) string {
	if wrapped {
		return "wrapped"
	}
	return "any"
}

// section writes a mapping of a topic, or nothing when it is empty.
func section[T any](w *yamlWriter, name string, n int, list []T, pair func(T) (name, value string)) {
	if n == 0 {
		return
	}
	w.line(2, name, "")
	for _, item := range list {
		key, value := pair(item)
		w.line(3, key, value)
	}
}

// flow joins the fields of one entry, leaving out those without a value.
func flow(pairs ...string) string {
	var b strings.Builder
	for pair := range slices.Chunk(pairs, 2) {
		if pair[1] == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteString(", ")
		}
		b.WriteString(pair[0] + ": " + pair[1])
	}
	return "{" + b.String() + "}"
}

// unlessZero is a number's text, or nothing for zero.
func unlessZero[T int | uint64](n T) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(uint64(n), 10)
}

func yamlOverride(o SlotPlacement) string {
	return flow("partition", strconv.Itoa(int(o.Partition)), "epoch", unlessZero(o.Epoch))
}

func yamlPlacement(p *Placement) string {
	partitions, topic, follow, tier := "", "", "", ""
	if len(p.Partitions) > 0 {
		partitions = yamlList(p.Partitions)
	}
	if p.Topic != "" {
		topic = yamlText(p.Topic)
	}
	if p.FollowSlot {
		follow = followSlot
	}
	if p.Tier != "" {
		tier = yamlText(p.Tier)
	}
	return flow("partitions", partitions, "spread", p.Spread.String(), "topic", topic,
		"follow", follow, "tier", tier, "epoch", unlessZero(p.Epoch))
}

func yamlList(partitions []int32) string {
	list := make([]string, len(partitions))
	for i, n := range partitions {
		list[i] = strconv.Itoa(int(n))
	}
	return "[" + strings.Join(list, ", ") + "]"
}

func yamlTier(t Tier) string {
	rate, reserved := "", ""
	if t.Rate > 0 {
		rate = FormatRate(t.Rate)
	}
	if t.Reserved > 0 {
		reserved = strconv.FormatFloat(t.Reserved, 'g', -1, 64)
	}
	return flow("weight", unlessZero(t.Weight), "max_concurrency", unlessZero(t.MaxConcurrency),
		"rate", rate, "burst", unlessZero(t.Burst), "reserved", reserved)
}

// yamlText writes a text plainly where no YAML reader could take it for
// anything else, in double quotes where it is printable, and as !!binary where
// it is not text at all.
func yamlText(s string) string {
	if isPlain(s) {
		return s
	}
	for _, r := range s {
		if r == utf8.RuneError || r == '\ufeff' || !unicode.IsPrint(r) {
			return `!!binary "` + base64.StdEncoding.EncodeToString([]byte(s)) + `"`
		}
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// isPlain accepts words that begin with a letter and are none of YAML's own.
func isPlain(s string) bool {
	if s == "" || len(s) > 100 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || !(c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.' || c == '/')) {
			return false
		}
	}
	switch strings.ToLower(s) {
	case "y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf":
		return false
	}
	return true
}
