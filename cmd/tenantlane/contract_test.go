package main

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
)

// Command lines that scripts rely on: names of commands and flags stay.
func TestCommandsAndFlagsThatScriptsUseExist(t *testing.T) {
	for line := range strings.Lines(`demo --duration 20s --tenants f --partitions 32 --workers 2 --move=true --format json
broker --listen a --data-dir d
route --topic t acme -
table init --from-topic t --clients java --table f
table check --table f
table get orders acme --table-topic tenantlane.routing
table set orders acme --partitions 0 --unsafe --hex
table unset orders acme --unsafe
table diff a b
table push f --table-topic n
table verify --topic t
table history --table-topic n
table rollback 1 --table-topic n
table prune --dry-run
tenant forget acme
plan size --peak-per-minute 12000 --p50 400ms --concurrency 8 --headroom 1.5 --minimum 8 --format json
plan whales --volumes f --partitions 32 --no-spread --write f
plan growth --from 4 --to 5 --keys f --hash murmur2-kafka
plan hash --keys f --hash murmur2-kafka --partitions 8
loadgen --topic t --tenants f --count 1 --rate 1 --size 1 --whale a:1 --log-file f
worker --topic t --group g --url u --concurrency 1 --log-file f --until-idle 5s
worker --topic t --group g --exec c
worker --topic t --group g --discard --handler-sleep 1ms
lanes list --admin u
lanes pause acme --admin u
lanes resume acme --admin u
lanes skip acme --admin u --topic t --partition 0 --offset 1
dlq list --topic t
dlq replay --topic t
verify --topic t --log a --log b --produced c
move start acme --to 1,2 --mode strict --accept-unordered
move start acme --to 1 --mode stopped --drain-timeout 300s --hex
move start --slot 1 --to 2
move status acme --hex --table-topic n
move abort acme --hex --table-topic n
move run --plan f --max-parallel 2
stale list --topic t
stale replay --topic t
stale drop --topic t acme
topic create --topic t --table f
topic grow --topic t --partitions 64
lagwatch --once --record f --listen a
lagwatch replay f
lagwatch explain billing orders 0
lagwatch check
lagwatch test-page
top --brokers b
bench consume --records 1 --keys power-law --handler-sleep 1ms --concurrency 1 --seconds 1
bench produce --records 1 --keys uniform
bench route
bench fair --records 1 --handler-sleep 1ms --concurrency 1 --seconds 1
bench move --seconds 1
bench lag
config print route
version
completion bash
`) {
		if err := parses(strings.Fields(line)); err != nil {
			t.Errorf("%s: %v", strings.TrimSpace(line), err)
		}
	}
}

// Fields of answers that scripts read stay, with their spelling.
func TestFieldsThatScriptsReadAreThere(t *testing.T) {
	volumes, keys := tempFile(t, "volumes.tsv", "whale\t900\na\t10\nb\t20\n"), tempFile(t, "keys.txt", "a\nb\nb\n")
	table, other := tempFile(t, "one.yaml", liveTable), tempFile(t, "other.yaml", strings.ReplaceAll(liveTable, "acme", "globex"))
	for args, fields := range map[string]string{
		"plan size --peak-per-minute 12000 --p50 400ms --concurrency 8": "partitions warnings",
		"plan whales --partitions 32 --volumes " + volumes:              "skew_before.max_mean skew_before.max_median skew_after.max_mean whales.0.tenant whales.0.tenant_hex whales.0.share whales.0.partitions whales.0.spread bound_by",
		"plan growth --from 4 --to 5 --keys " + keys: "strategies.modulo.moved strategies.modulo.of strategies.ring.moved strategies.rendezvous.moved " +
			"strategies.jump.moved strategies.slots.moved slot_moves.0.slot slot_moves.0.from slot_moves.0.to",
		"plan hash --partitions 8 --keys " + keys: "hottest_share counts",
		"route acme --table " + table:             "tenant tenant_hex topic hash slot partition partitions epoch rule",
		"table diff " + table + " " + other:       "slots_moved placements.0.tenant volume_moved",
	} {
		got := runArgs(t, append(strings.Fields(args), "--format", "json")...)
		got.wantDone(t)
		var answer any
		if err := json.Unmarshal([]byte(got.stdout), &answer); err != nil {
			t.Errorf("%s: %v", args, err)
			continue
		}
		for path := range strings.FieldsSeq(fields) {
			if !has(answer, strings.Split(path, ".")) {
				t.Errorf("%s: no %s in %s", args, path, got.stdout)
			}
		}
	}
}

// has tells whether a JSON value has what a path names, be it null.
func has(value any, path []string) bool {
	if len(path) == 0 {
		return true
	}
	switch v := value.(type) {
	case map[string]any:
		inner, ok := v[path[0]]
		return ok && has(inner, path[1:])
	case []any:
		n, err := strconv.Atoi(path[0])
		return err == nil && n < len(v) && has(v[n], path[1:])
	}
	return false
}
