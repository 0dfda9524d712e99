package routing_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// inTopic is a table whose topic has the given lines more; they begin in line 5.
func inTopic(lines ...string) string {
	head := "version: 1\ntopics:\n  orders:\n    partitions: 8\n"
	return head + "    " + strings.Join(lines, "\n    ") + "\n"
}

func TestErrorsOfATable(t *testing.T) {
	cases := []struct {
		name, text string
		line       int
		field, msg string
	}{
		{"empty text", "", 1, "", "YAML documents, must be one"},
		{"two documents", "version: 1\n---\nversion: 1\n", 1, "", "2 YAML documents"},
		{"not YAML", "version: 1\ntopics: {orders: [\n", 0, "", ""},
		{"not a mapping", "- 1\n", 1, "", "must be a mapping"},
		{"no version", "revision: 3\n", 1, "version", "must be 1"},
		{"another version", "revision: 3\nversion: 2\n", 2, "version", "must be 1"},
		{"negative revision", "version: 1\nrevision: -1\n", 2, "revision", "not a whole number"},
		{"unknown field at the top", "version: 1\ntopic: {}\n", 2, "topic", "unknown field"},
		{"alias", "version: 1\ntopics:\n  a: &x {partitions: 1}\n  b: *x\n", 4, "topics.b", "mapping"},
		{"anchored value", "version: 1\nrevision: &x 3\n", 2, "revision", "anchors and aliases"},
		{"merge key", "version: 1\ntopics:\n  <<: {a: {partitions: 1}}\n", 3, "topics", "!!merge"},
		{"topic name", "version: 1\ntopics:\n  a b: {partitions: 1}\n", 3, `topics."a b"`, "not a topic name"},
		{"topic twice", "version: 1\ntopics:\n  a: {partitions: 1}\n  a: {partitions: 1}\n", 4, "topics.a", "comes twice, first in line 3"},
		{"topic without partitions", "version: 1\ntopics:\n  a: {}\n", 3, "topics.a.partitions", "must be 1 to 65536"},

		{"unknown field", inTopic("slot: 3"), 5, "topics.orders.slot", "unknown field"},
		{"duplicate field", inTopic("slots: 8", "slots: 8"), 6, "topics.orders.slots", "comes twice, first in line 5"},
		{"partitions too many", "version: 1\ntopics:\n  a:\n    partitions: 65537\n", 4, "topics.a.partitions", "must be 1 to 65536"},
		{"partitions not a number", "version: 1\ntopics:\n  a:\n    partitions: many\n", 4, "topics.a.partitions", "not a whole number"},
		{"unknown hash", inTopic("hash: md5"), 5, "topics.orders.hash", `unknown hash "md5", known are xxhash64`},
		{"unknown strategy", inTopic("strategy: ring"), 5, "topics.orders.strategy", `unknown strategy "ring"`},
		{"unknown producers", inTopic("producers: all"), 5, "topics.orders.producers", "not any or wrapped"},
		{"unknown tenant_of", inTopic("tenant_of: value"), 5, "topics.orders.tenant_of", "not key, header:NAME or prefix:SEPARATOR"},
		{"header without a name", inTopic(`tenant_of: "header:"`), 5, "topics.orders.tenant_of", "not key"},
		{"prefix without a separator", inTopic(`tenant_of: "prefix:"`), 5, "topics.orders.tenant_of", "not key"},
		{"too many slots", inTopic("slots: 65537"), 5, "topics.orders.slots", "must be 1 to 65536"},
		{"no slots", inTopic("slots: 0"), 5, "topics.orders.slots", "must be 1 to 65536"},
		{"fewer slots than shared partitions", inTopic("slots: 7"), 5, "topics.orders.slots", "7 slots leave some of the 8 shared partitions"},
		{"empty shared", inTopic(`shared: ""`), 5, "topics.orders.shared", "an empty range"},
		{"shared null", inTopic("shared:"), 5, "topics.orders.shared", "must not be empty"},
		{"empty list", inTopic("shared: []"), 5, "topics.orders.shared", "names no partition"},
		{"empty range", inTopic(`shared: "5-3"`), 5, "topics.orders.shared", "range 5-3 is empty"},
		{"hole in a list", inTopic(`shared: "1,,3"`), 5, "topics.orders.shared", "an empty range"},
		{"overlapping ranges", inTopic(`shared: "0-4,3-7"`), 5, "topics.orders.shared", "partition 3 is listed twice"},
		{"range of words", inTopic(`shared: "a-b"`), 5, "topics.orders.shared", "not a partition number"},
		{"negative partition", inTopic(`shared: "-1"`), 5, "topics.orders.shared", "not a partition number"},
		{"shared outside the topic", inTopic(`shared: "0-8"`), 5, "topics.orders.shared", "partition 8 is outside the topic, which has 0 to 7"},
		{"shared far outside any topic", inTopic(`shared: "0-4000000"`), 5, "topics.orders.shared", "outside the topic"},

		{"slot outside", inTopic("slot_overrides:", "  4096: {partition: 1}"), 6, "topics.orders.slot_overrides.4096", "slot 4096 is outside"},
		{"slot not a number", inTopic("slot_overrides:", "  x: {partition: 1}"), 6, "topics.orders.slot_overrides.x", "not a slot number"},
		{"slot written twice", inTopic("slot_overrides:", "  1: {partition: 1}", "  01: {partition: 2}"), 7, "topics.orders.slot_overrides.01", "not a slot number"},
		{"slot without partition", inTopic("slot_overrides:", "  1: {epoch: 0}"), 6, "topics.orders.slot_overrides.1", "needs a partition"},
		{"slot to nowhere", inTopic("slot_overrides:", "  1: {partition: 8}"), 6, "topics.orders.slot_overrides.1.partition", "outside the topic"},
		{"slot from the future", inTopic("epoch: 2", "slot_overrides:", "  1: {partition: 1, epoch: 3}"), 7, "topics.orders.slot_overrides.1.epoch", "above the topic's counter 2"},

		{"duplicate tenant", inTopic("placements:", "  acme: {partitions: [1]}", "  acme: {partitions: [2]}"), 7, "topics.orders.placements.acme", "comes twice, first in line 6"},
		{"duplicate tenant, once quoted", inTopic("placements:", "  123: {partitions: [1]}", "  \"123\": {partitions: [2]}"), 7, "topics.orders.placements.123", "comes twice"},
		{"duplicate tenant, once binary", inTopic("placements:", "  a: {partitions: [1]}", "  !!binary YQ==: {partitions: [2]}"), 7, "topics.orders.placements.a", "comes twice"},
		{"broken base64", inTopic("placements:", "  !!binary \"YQ=\": {partitions: [1]}"), 6, "topics.orders.placements", "not base64"},
		{"null tenant", inTopic("placements:", "  ~: {partitions: [1]}"), 6, "topics.orders.placements", "must not be empty"},
		{"empty tenant", inTopic("placements:", "  \"\": {partitions: [1]}"), 6, `topics.orders.placements.""`, "an empty tenant"},
		{"list as a tenant", inTopic("placements:", "  [a]: {partitions: [1]}"), 6, "topics.orders.placements", "single value"},
		{"placement outside the topic", inTopic("placements:", "  acme: {partitions: [40]}"), 6, "topics.orders.placements.acme.partitions", "partition 40 is outside the topic, which has 0 to 7"},
		{"placement partition twice", inTopic("placements:", "  acme: {partitions: [1, 1], spread: random}"), 6, "topics.orders.placements.acme.partitions", "listed twice"},
		{"placement of lists", inTopic("placements:", "  acme: {partitions: [[1]]}"), 6, "topics.orders.placements.acme.partitions", "single value"},
		{"several partitions without spread", inTopic("placements:", "  acme: {partitions: [1, 2]}"), 6, "topics.orders.placements.acme.partitions", "need spread"},
		{"spread by key of a key", inTopic("placements:", "  acme: {partitions: [1, 2], spread: key}"), 6, "topics.orders.placements.acme.spread", "all keys of a tenant are equal"},
		{"unknown spread", inTopic("placements:", "  acme: {partitions: [1, 2], spread: even}"), 6, "topics.orders.placements.acme.spread", "not key or random"},
		{"nowhere", inTopic("placements:", "  acme: {epoch: 0}"), 6, "topics.orders.placements.acme", "needs partitions, a topic, or follow: slot"},
		{"topic and partitions", inTopic("placements:", "  acme: {topic: b, partitions: [1]}"), 6, "topics.orders.placements.acme.topic", "within that topic's entry"},
		{"its own topic", inTopic("placements:", "  acme: {topic: orders}"), 6, "topics.orders.placements.acme.topic", "itself"},
		{"no topic name", inTopic("placements:", "  acme: {topic: a/b}"), 6, "topics.orders.placements.acme.topic", "not a topic name"},
		{"empty topic", inTopic("placements:", "  acme: {topic: \"\"}"), 6, "topics.orders.placements.acme.topic", "must be a text"},
		{"follow and partitions", inTopic("placements:", "  acme: {follow: slot, partitions: [1]}"), 6, "topics.orders.placements.acme.follow", "neither partitions nor a topic"},
		{"follow what", inTopic("placements:", "  acme: {follow: me}"), 6, "topics.orders.placements.acme.follow", "only its slot"},
		{"tier unknown", inTopic("placements:", "  acme: {partitions: [1], tier: gold}"), 6, "topics.orders.placements.acme.tier", `no tier "gold"`},
		{"placement from the future", inTopic("placements:", "  acme: {partitions: [1], epoch: 1}"), 6, "topics.orders.placements.acme.epoch", "above the topic's counter 0"},
		{"unknown field of a placement", inTopic("placements:", "  acme: {partition: 1}"), 6, "topics.orders.placements.acme.partition", "unknown field"},
		{"placement not a mapping", inTopic("placements:", "  acme: 1"), 6, "topics.orders.placements.acme", "must be a mapping"},
		{"chain of topics", "version: 1\ntopics:\n  a:\n    partitions: 1\n    placements:\n      x: {topic: b}\n  b: {partitions: 1, placements: {x: {topic: c}}}\n", 6, "topics.a.placements.x.topic", "not a chain"},

		{"weight", inTopic("tiers:", "  a: {weight: 0}"), 6, "topics.orders.tiers.a.weight", "must be 1 to"},
		{"rate", inTopic("tiers:", "  a: {rate: 500}"), 6, "topics.orders.tiers.a.rate", "not a rate like 500/s"},
		{"rate of nothing", inTopic("tiers:", "  a: {rate: 0/s}"), 6, "topics.orders.tiers.a.rate", "not a rate"},
		{"rate by the day", inTopic("tiers:", "  a: {rate: 5/d}"), 6, "topics.orders.tiers.a.rate", "not a rate"},
		{"burst without a rate", inTopic("tiers:", "  a: {burst: 5}"), 6, "topics.orders.tiers.a.burst", "needs a rate"},
		{"all reserved", inTopic("tiers:", "  a: {reserved: 1}"), 6, "topics.orders.tiers.a.reserved", "not including, 1"},
		{"reserved together", inTopic("tiers:", "  a: {reserved: 0.5}", "  b: {reserved: 0.5}"), 7, "topics.orders.tiers.b.reserved", "add up to 1 or more"},
		{"tier without a name", inTopic("tiers:", "  \"\": {weight: 1}"), 6, `topics.orders.tiers.""`, "needs a name"},
		{"tenant's tier unknown", inTopic("tenants:", "  acme: {tier: gold}"), 6, "topics.orders.tenants.acme.tier", `no tier "gold"`},
		{"tenant without a tier", inTopic("tenants:", "  acme: {}"), 6, "topics.orders.tenants.acme", "needs a tier"},
		{"empty tenant with a tier", inTopic("tiers: {gold: {}}", "tenants:", "  \"\": {tier: gold}"), 7, `topics.orders.tenants.""`, "an empty tenant"},
		{"tier named twice", inTopic("tiers: {gold: {}}", "placements: {acme: {partitions: [1], tier: gold}}", "tenants:", "  acme: {tier: gold}"), 8, "topics.orders.tenants.acme", "already names its tier"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := routing.Parse("table.yaml", []byte(c.text))
			var e *routing.Error
			if !errors.As(err, &e) {
				t.Fatalf("error is %v, want an *Error", err)
			}
			if e.File != "table.yaml" || e.Line < 1 || c.line > 0 && e.Line != c.line {
				t.Errorf("in %s:%d, want line %d", e.File, e.Line, c.line)
			}
			if e.Field != c.field || !strings.Contains(e.Msg, c.msg) {
				t.Errorf("%s: %s\nwant %s: …%s…", e.Field, e.Msg, c.field, c.msg)
			}
			if strings.ContainsAny(err.Error(), "\n\r") || !strings.HasPrefix(err.Error(), "table.yaml:") {
				t.Errorf("not one line that begins with the file: %q", err)
			}
		})
	}
}

func TestErrorsWithoutAFileNameTheField(t *testing.T) {
	_, err := routing.NewTable(routing.Spec{Topics: map[string]routing.TopicSpec{"orders": {Partitions: 4, Placements: map[string]routing.Placement{
		"acme.eu": {Partitions: []int32{4}},
	}}}})
	want := `topics.orders.placements."acme.eu".partitions: partition 4 is outside the topic, which has 0 to 3`
	if err == nil || err.Error() != want {
		t.Errorf("error is %v, want %s", err, want)
	}
}

func TestNamesThatYAMLWouldTakeForOtherTypes(t *testing.T) {
	names := []string{"123", "1.0", "yes", "true", "null", "~", "2024-01-01", "0x1F", "<<", "=", "-", "? a", ": b", "#c", "a: b", "'q'", `"q"`, " lead", "trail ", "tab\t", "new\nline", "租户-7", "é", "\u2028", "\x00", "\xff\xfe", "&a", "*a", "!a", "%a", "@a", "`a"}
	placements := map[string]routing.Placement{}
	for i, name := range names {
		placements[name] = routing.Placement{Partitions: []int32{int32(i % 8)}}
	}
	table, err := routing.NewTable(routing.Spec{Topics: map[string]routing.TopicSpec{"orders": {Partitions: 8, Placements: placements}}})
	if err != nil {
		t.Fatal(err)
	}
	text, err := table.YAML()
	if err != nil {
		t.Fatal(err)
	}
	topic, _ := parse(t, string(text)).Topic("orders")
	for i, name := range names {
		if got := topic.Partition([]byte(name), nil); got != int32(i%8) {
			t.Errorf("%q goes to %d after a round trip, want %d", name, got, i%8)
		}
	}
}
