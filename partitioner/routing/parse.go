package routing

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// formatVersion is the version of the YAML format that this package reads and
// writes.
const formatVersion = 1

// Parse reads a table from YAML. It is strict: unknown fields, duplicate keys,
// aliases, more than one document, and everything that NewTable refuses are
// errors. Each is an *Error with file, line and field.
func Parse(file string, text []byte) (*Table, error) {
	root, err := parseNode(text)
	if err == nil {
		var spec Spec
		if spec, err = readSpec(root); err == nil {
			var table *Table
			if table, err = NewTable(spec); err == nil {
				return table, nil
			}
		}
	}
	located := &Error{Msg: err.Error()}
	errors.As(err, &located)
	located.File = file
	if located.Line == 0 {
		located.Line = locate(root, located.path)
	}
	return nil, located
}

// parseNode reads the one document of text.
func parseNode(text []byte) (*yaml.Node, error) {
	var documents []yaml.Node
	err := yaml.Load(text, &documents, yaml.WithAllDocuments())
	if syntax, ok := errors.AsType[*yaml.LoadError](err); ok {
		return nil, &Error{Line: max(1, syntax.Mark.Line), Msg: syntax.Message}
	}
	if err != nil {
		return nil, &Error{Line: 1, Msg: err.Error()}
	}
	if len(documents) != 1 {
		return nil, &Error{Line: 1, Msg: fmt.Sprintf("%d YAML documents, must be one", len(documents))}
	}
	root := &documents[0]
	if root.Kind == yaml.DocumentNode && len(root.Content) == 1 {
		root = root.Content[0]
	}
	return root, nil
}

// locate finds the line of a path, or of as much of it as the text has.
func locate(n *yaml.Node, path []string) int {
	if n == nil {
		return 1
	}
	line := max(1, n.Line)
	for _, name := range path {
		next := child(n, name)
		if next == nil {
			return line
		}
		line, n = next[0].Line, next[1]
	}
	return line
}

// child finds a key of a mapping and its value.
func child(n *yaml.Node, name string) []*yaml.Node {
	if n.Kind != yaml.MappingNode {
		return nil
	}
	for pair := range slices.Chunk(n.Content, 2) {
		if key, err := scalar(pair[0]); err == nil && key == name {
			return pair
		}
	}
	return nil
}

// readers are the fields of a mapping and how each value is read.
type readers map[string]func(n *yaml.Node) error

func readSpec(root *yaml.Node) (Spec, error) {
	spec := Spec{Topics: map[string]TopicSpec{}}
	version := uint64(0)
	err := readFields(root, readers{
		"version":  readUint(&version),
		"revision": readUint(&spec.Revision),
		"topics": func(n *yaml.Node) error {
			return readMap(n, func(name string, n *yaml.Node) (err error) {
				spec.Topics[name], err = readTopic(n)
				return err
			})
		},
	})
	if err == nil && version != formatVersion {
		return spec, fault(fmt.Sprintf("must be %d, the version of the format", formatVersion), "version")
	}
	return spec, err
}

func readTopic(n *yaml.Node) (TopicSpec, error) {
	t := TopicSpec{
		SlotOverrides: map[int32]SlotPlacement{}, Placements: map[string]Placement{},
		Tiers: map[string]Tier{}, Tenants: map[string]TenantSpec{}, Moves: map[string]Move{},
	}
	var slots int32
	err := readFields(n, readers{
		"partitions":     readInt(&t.Partitions, 1, MaxPartitions),
		"hash":           readWith(&t.Hash, ParseHash),
		"slots":          readInt(&slots, 1, MaxSlots),
		"shared":         readPartitions(&t.Shared),
		"tenant_of":      readWith(&t.TenantOf, ParseTenantRule),
		"producers":      readWith(&t.Wrapped, parseProducers),
		"strategy":       readWith(new(string), parseStrategy),
		"epoch":          readUint(&t.Epoch),
		"slot_overrides": readOverrides(t.SlotOverrides),
		"placements":     readMapInto(t.Placements, readPlacement),
		"tiers":          readMapInto(t.Tiers, readTier),
		"tenants":        readMapInto(t.Tenants, readTenant),
		"moves":          readMapInto(t.Moves, readMove),
	})
	t.Slots = slots
	return t, err
}

func parseProducers(s string) (wrapped bool, err error) {
	if s != "any" && s != "wrapped" {
		return false, fmt.Errorf("%q is not any or wrapped", s)
	}
	return s == "wrapped", nil
}

// strategyModulo is the only base mapping; anything else is slot_overrides.
const strategyModulo = "modulo"

func parseStrategy(s string) (string, error) {
	if s != strategyModulo {
		return "", fmt.Errorf("unknown strategy %q, the only one is %s", s, strategyModulo)
	}
	return s, nil
}

func readOverrides(into map[int32]SlotPlacement) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		return readMap(n, func(name string, n *yaml.Node) error {
			slot, err := strconv.ParseInt(name, 10, 32)
			if err != nil || strconv.FormatInt(slot, 10) != name {
				return lineFault(n, fmt.Sprintf("%q is not a slot number", name))
			}
			o := SlotPlacement{Partition: -1}
			err = readFields(n, readers{
				"partition": readInt(&o.Partition, 0, MaxPartitions),
				"epoch":     readUint(&o.Epoch),
			})
			if err == nil && o.Partition < 0 {
				return lineFault(n, "needs a partition")
			}
			into[int32(slot)] = o
			return err
		})
	}
}

func readPlacement(n *yaml.Node) (Placement, error) {
	var p Placement
	err := readFields(n, readers{
		"partitions": readPartitions(&p.Partitions),
		"spread":     readWith(&p.Spread, parseSpread),
		"topic":      readString(&p.Topic),
		"follow":     readWith(&p.FollowSlot, parseFollow),
		"tier":       readString(&p.Tier),
		"epoch":      readUint(&p.Epoch),
	})
	return p, err
}

func parseSpread(s string) (Spread, error) {
	for _, spread := range []Spread{SpreadKey, SpreadRandom} {
		if spread.String() == s {
			return spread, nil
		}
	}
	return SpreadNone, fmt.Errorf("%q is not key or random", s)
}

// followSlot is the word of a placement that follows its slot.
const followSlot = "slot"

func parseFollow(s string) (bool, error) {
	if s != followSlot {
		return false, fmt.Errorf("%q: a tenant can follow only its slot", s)
	}
	return true, nil
}

func readTier(n *yaml.Node) (Tier, error) {
	var t Tier
	var weight, concurrency, burst int32
	err := readFields(n, readers{
		"weight":          readInt(&weight, 1, 1<<31-1),
		"max_concurrency": readInt(&concurrency, 1, 1<<31-1),
		"rate":            readWith(&t.Rate, ParseRate),
		"burst":           readInt(&burst, 1, 1<<31-1),
		"reserved":        readWith(&t.Reserved, parseShare),
	})
	t.Weight, t.MaxConcurrency, t.Burst = int(weight), int(concurrency), int(burst)
	return t, err
}

func parseShare(s string) (float64, error) {
	share, err := strconv.ParseFloat(s, 64)
	if err != nil || !(share >= 0 && share < 1) {
		return 0, fmt.Errorf("%q is not a share from 0 up to, not including, 1", s)
	}
	return share, nil
}

func readTenant(n *yaml.Node) (TenantSpec, error) {
	var t TenantSpec
	err := readFields(n, readers{"tier": readString(&t.Tier)})
	if err == nil && t.Tier == "" {
		return t, lineFault(n, "needs a tier")
	}
	return t, err
}

// readPartitions takes a list of numbers, or a text of ranges. Whether they
// lie within the topic is checked later, when its size is known.
func readPartitions(into *[]int32) func(*yaml.Node) error {
	return func(n *yaml.Node) (err error) {
		if n.Kind != yaml.SequenceNode {
			return readWith(into, func(s string) ([]int32, error) { return ParsePartitions(s, MaxPartitions) })(n)
		}
		parts := make([]string, len(n.Content))
		for i, item := range n.Content {
			if parts[i], err = scalar(item); err != nil {
				return lineFault(item, err.Error())
			}
		}
		if len(parts) == 0 {
			return lineFault(n, "names no partition")
		}
		if *into, err = ParsePartitions(strings.Join(parts, ","), MaxPartitions); err != nil {
			return lineFault(n, err.Error())
		}
		return nil
	}
}

func readInt(into *int32, low, high int64) func(*yaml.Node) error {
	return readWith(into, func(s string) (int32, error) {
		n, err := strconv.ParseInt(s, 10, 32)
		if err != nil {
			return 0, fmt.Errorf("%q is not a whole number", s)
		}
		if n < low || n > high {
			return 0, fmt.Errorf("must be %d to %d, is %d", low, high, n)
		}
		return int32(n), nil
	})
}

func readUint(into *uint64) func(*yaml.Node) error {
	return readWith(into, func(s string) (uint64, error) {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%q is not a whole number from 0", s)
		}
		return n, nil
	})
}

func readString(into *string) func(*yaml.Node) error {
	return readWith(into, func(s string) (string, error) {
		if s == "" || !utf8.ValidString(s) {
			return "", errors.New("must be a text, not empty")
		}
		return s, nil
	})
}

// readWith reads a scalar and says the line of what parse refuses.
func readWith[T any](into *T, parse func(string) (T, error)) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		s, err := scalar(n)
		if err == nil {
			*into, err = parse(s)
		}
		if err != nil {
			return lineFault(n, err.Error())
		}
		return nil
	}
}

func readMapInto[T any](into map[string]T, read func(*yaml.Node) (T, error)) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		return readMap(n, func(name string, n *yaml.Node) (err error) {
			into[name], err = read(n)
			return err
		})
	}
}

func readFields(n *yaml.Node, known readers) error {
	return readMap(n, func(name string, value *yaml.Node) error {
		read, ok := known[name]
		if !ok {
			return lineFault(value, "unknown field")
		}
		return read(value)
	})
}

// readMap visits a mapping's pairs and refuses a key that comes twice.
func readMap(n *yaml.Node, visit func(name string, value *yaml.Node) error) error {
	if n.Kind != yaml.MappingNode {
		return lineFault(n, "must be a mapping of names to values")
	}
	seen := make(map[string]int, len(n.Content)/2)
	for pair := range slices.Chunk(n.Content, 2) {
		name, err := scalar(pair[0])
		if err != nil {
			return lineFault(pair[0], "a name: "+err.Error())
		}
		if first, twice := seen[name]; twice {
			return under(lineFault(pair[0], fmt.Sprintf("comes twice, first in line %d", first)), name)
		}
		seen[name] = pair[0].Line
		if err := visit(name, pair[1]); err != nil {
			return under(err, name)
		}
	}
	return nil
}

// scalar gives a scalar's text as written, whatever type YAML would see in it:
// a tenant may be called 123 or yes. Only null, merge keys and foreign tags
// have no text. !!binary gives the bytes that its base64 stands for.
func scalar(n *yaml.Node) (string, error) {
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		return "", errors.New("anchors and aliases are not allowed")
	case n.Kind != yaml.ScalarNode:
		return "", errors.New("must be a single value")
	}
	switch n.ShortTag() {
	case "!!str", "!!int", "!!float", "!!bool", "!!timestamp":
		return n.Value, nil
	case "!!binary":
		raw, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(n.Value), ""))
		if err != nil {
			return "", fmt.Errorf("!!binary is not base64: %w", err)
		}
		return string(raw), nil
	case "!!null":
		return "", errors.New("must not be empty (quote a name that is null or ~)")
	}
	return "", fmt.Errorf("must not be a %s", n.ShortTag())
}

func lineFault(n *yaml.Node, msg string) error {
	e := fault(msg)
	e.Line = n.Line
	return e
}
