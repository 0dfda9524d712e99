package routing

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// deadlineFormat is a move's deadline in YAML, to the millisecond, in UTC.
const deadlineFormat = "2006-01-02T15:04:05.000Z"

func yamlMove(m *Move) string {
	tenant, deadline := "", ""
	if m.Tenant != "" {
		tenant = yamlText(m.Tenant)
	}
	if !m.Deadline.IsZero() {
		deadline = strconv.Quote(m.Deadline.Format(deadlineFormat))
	}
	from, to := "", "" // of slots, these follow from the slots
	if m.Tenant != "" {
		from, to = yamlList(m.From), yamlList(m.To)
	}
	return flow("tenant", tenant, "slots", yamlSlotMoves(m.Slots), "from", from, "from_spread", m.FromSpread.String(),
		"to", to, "to_spread", m.ToSpread.String(), "epoch", unlessZero(m.Epoch), "state", m.State.String(),
		"deadline", deadline, "fences", yamlFences(m.Fences), "over", yamlSessions(m.Over))
}

// way is a pair of partitions that slots move between.
type way struct{ from, to int32 }

func (w way) String() string { return fmt.Sprintf("%d>%d", w.from, w.to) }

// yamlSlotMoves puts the slots that share their way together, as ranges.
func yamlSlotMoves(list []SlotMove) string {
	if len(list) == 0 {
		return ""
	}
	slots := map[way][]int32{}
	for _, s := range list {
		w := way{s.From, s.To}
		slots[w] = append(slots[w], s.Slot)
	}
	ways := slices.SortedFunc(maps.Keys(slots), func(a, b way) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to))
	})
	pairs := make([]string, 0, 2*len(ways))
	for _, w := range ways {
		pairs = append(pairs, strconv.Quote(w.String()), strconv.Quote(FormatPartitions(slots[w])))
	}
	return flow(pairs...)
}

func yamlFences(list []Fence) string {
	if len(list) == 0 {
		return ""
	}
	pairs := make([]string, 0, 2*len(list))
	for _, f := range list {
		pairs = append(pairs, strconv.Itoa(int(f.Partition)), strconv.FormatInt(f.Offset, 10))
	}
	return flow(pairs...)
}

// yamlSessions joins the ids of sessions with commas.
func yamlSessions(ids []SessionID) string {
	if len(ids) == 0 {
		return ""
	}
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = id.String()
	}
	return strconv.Quote(strings.Join(names, ","))
}

func parseSessions(s string) (ids []SessionID, err error) {
	for name := range strings.SplitSeq(s, ",") {
		id, err := ParseSessionID(name)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

func readMove(n *yaml.Node) (Move, error) {
	var m Move
	err := readFields(n, readers{
		"tenant":      readBytes(&m.Tenant),
		"slots":       readSlots(&m.Slots),
		"from":        readPartitions(&m.From),
		"from_spread": readWith(&m.FromSpread, parseSpread),
		"to":          readPartitions(&m.To),
		"to_spread":   readWith(&m.ToSpread, parseSpread),
		"epoch":       readUint(&m.Epoch),
		"state":       readWith(&m.State, parseMoveState),
		"deadline":    readWith(&m.Deadline, parseDeadline),
		"fences":      readFences(&m.Fences),
		"over":        readWith(&m.Over, parseSessions),
	})
	switch {
	case err != nil:
		return m, err
	case child(n, "state") == nil:
		return m, lineFault(n, "needs a state")
	case len(m.Slots) > 0 && (len(m.From) > 0 || len(m.To) > 0):
		return m, lineFault(n, "a move of slots has no from and to of its own")
	}
	return m, nil
}

func parseDeadline(s string) (time.Time, error) {
	at, err := time.Parse(deadlineFormat, s)
	if err != nil {
		return at, fmt.Errorf("%q is not a time like %s", s, deadlineFormat)
	}
	return at, nil
}

// readBytes takes any scalar that is not empty, be it text or not.
func readBytes(into *string) func(*yaml.Node) error {
	return readWith(into, func(s string) (string, error) {
		if s == "" {
			return "", fmt.Errorf("must not be empty")
		}
		return s, nil
	})
}

func readSlots(into *[]SlotMove) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		err := readMap(n, func(name string, n *yaml.Node) error {
			w, err := parseWay(name)
			if err != nil {
				return lineFault(n, err.Error())
			}
			return readWith(new([]int32), func(s string) ([]int32, error) {
				slots, err := ParsePartitions(s, MaxSlots)
				for _, slot := range slots {
					*into = append(*into, SlotMove{Slot: slot, From: w.from, To: w.to})
				}
				return slots, err
			})(n)
		})
		slices.SortFunc(*into, func(a, b SlotMove) int { return cmp.Compare(a.Slot, b.Slot) })
		return err
	}
}

func parseWay(s string) (w way, err error) {
	from, to, ok := strings.Cut(s, ">")
	a, err := strconv.ParseUint(from, 10, 31)
	b, err2 := strconv.ParseUint(to, 10, 31)
	w = way{int32(a), int32(b)}
	if !ok || err != nil || err2 != nil || w.String() != s {
		return w, fmt.Errorf("%q is not a way between two partitions, like 3>7", s)
	}
	return w, nil
}

func readFences(into *[]Fence) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		err := readMap(n, func(name string, n *yaml.Node) error {
			partition, err := strconv.ParseInt(name, 10, 32)
			if err != nil || strconv.FormatInt(partition, 10) != name {
				return lineFault(n, fmt.Sprintf("%q is not a partition number", name))
			}
			f := Fence{Partition: int32(partition)}
			err = readWith(&f.Offset, func(s string) (int64, error) {
				offset, malformed := strconv.ParseInt(s, 10, 64)
				if malformed != nil {
					return 0, fmt.Errorf("%q is not an offset", s)
				}
				return offset, nil
			})(n)
			*into = append(*into, f)
			return err
		})
		slices.SortFunc(*into, func(a, b Fence) int { return cmp.Compare(a.Partition, b.Partition) })
		return err
	}
}
