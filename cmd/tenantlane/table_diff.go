package main

import (
	"encoding/hex"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/rebalance/plan/picture"
)

// diffJSON is what differs between two tables.
type diffJSON struct {
	SlotsMoved  int              `json:"slots_moved"`
	Placements  []placedDiffJSON `json:"placements"`
	VolumeMoved *float64         `json:"volume_moved"` // share of --volumes; null without
	Topics      []topicDiffJSON  `json:"topics"`
}

type placedDiffJSON struct {
	Topic     string    `json:"topic"`
	Tenant    string    `json:"tenant"`
	TenantHex string    `json:"tenant_hex"`
	From      placeJSON `json:"from"`
	To        placeJSON `json:"to"`
}

type placeJSON struct {
	Partitions []int32 `json:"partitions"`
	Spread     string  `json:"spread"`
	Topic      string  `json:"topic"` // another topic, or empty
}

type topicDiffJSON struct {
	Topic    string         `json:"topic"`
	Added    bool           `json:"added"`
	Removed  bool           `json:"removed"`
	Rehashed bool           `json:"rehashed"` // hash, slots or tenant_of differ: any tenant may move
	Slots    []slotMoveJSON `json:"slots"`
}

func newTableDiffCommand(e *env) *cobra.Command {
	var output outputFlags
	var table tableFlags
	var volumes populationFlags
	var topic string
	cmd := &cobra.Command{
		Use:   "diff [OLD] NEW",
		Short: "What moves between two tables",
		Long: "Compares two table files, or the live table (--table) with a file. With --volumes it also says what\n" +
			"share of those tenants' volume moves, in one topic.",
		Example: "  tenantlane table diff --table routing.yaml planned.yaml --volumes tenants.tsv",
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if (len(args) == 2) == table.given() {
				return usagef("give two files, or --table and one file")
			}
			before := table
			if len(args) == 2 {
				before = tableFlags{file: args[0]}
			}
			after := tableFlags{file: args[len(args)-1]}
			a, err := before.read(ctx)
			if err != nil {
				return err
			}
			b, err := after.read(ctx)
			if err != nil {
				return err
			}
			answer := diffAnswer(a, b)
			if volumes.given() {
				if answer.VolumeMoved, err = volumeMoved(cmd, e, &volumes, a, b, topic); err != nil {
					return err
				}
			}
			if output.json() {
				return e.printJSON(answer)
			}
			return e.printDiff(answer)
		},
	}
	flags := cmd.Flags()
	table.register(flags, &volumes.kafka)
	volumes.register(flags, "volumes")
	flags.StringVar(&topic, "topic", "", "topic of --volumes (default: the only one)")
	output.register(flags)
	return cmd
}

func volumeMoved(cmd *cobra.Command, e *env, volumes *populationFlags, a, b *routing.Table, name string) (*float64, error) {
	from, err := pickTopic(a, name)
	if err != nil {
		return nil, err
	}
	to, err := pickTopic(b, from.Name())
	if err != nil {
		return nil, err
	}
	population, err := volumes.load(cmd.Context(), e, from.TenantRule())
	if err != nil {
		return nil, err
	}
	share := routing.VolumeMoved(from, to, population)
	return &share, nil
}

func diffAnswer(a, b *routing.Table) diffJSON {
	answer := diffJSON{Placements: []placedDiffJSON{}, Topics: []topicDiffJSON{}}
	for _, d := range routing.Diff(a, b) {
		topic := topicDiffJSON{Topic: d.Topic, Added: d.Added, Removed: d.Removed, Rehashed: d.Rehashed, Slots: []slotMoveJSON{}}
		for _, s := range d.Slots {
			topic.Slots = append(topic.Slots, slotMoveJSON{s.Slot, s.From, s.To})
		}
		for _, p := range d.Placements {
			text, _ := tenantText([]byte(p.Tenant))
			answer.Placements = append(answer.Placements, placedDiffJSON{d.Topic, text, hex.EncodeToString([]byte(p.Tenant)), toPlaceJSON(p.From), toPlaceJSON(p.To)})
		}
		answer.SlotsMoved += len(d.Slots)
		answer.Topics = append(answer.Topics, topic)
	}
	return answer
}

func toPlaceJSON(p routing.Place) placeJSON {
	j := placeJSON{p.Partitions, p.Spread.String(), p.Topic}
	if j.Partitions == nil {
		j.Partitions = []int32{}
	}
	return j
}

// String says where a tenant goes, for people.
func (p placeJSON) String() string {
	switch {
	case p.Topic != "":
		return "topic " + p.Topic
	case p.Spread != "":
		return fmt.Sprintf("%s by %s", routing.FormatPartitions(p.Partitions), p.Spread)
	}
	return routing.FormatPartitions(p.Partitions)
}

func (e *env) printDiff(d diffJSON) error {
	for _, t := range d.Topics {
		what := fmt.Sprintf("%d slots move", len(t.Slots))
		switch {
		case len(t.Slots) == 0 && !t.Added && !t.Removed && !t.Rehashed:
			continue
		case t.Added:
			what = "added"
		case t.Removed:
			what = "removed"
		case t.Rehashed:
			what = "hash, slots or tenant_of differ: any tenant may move"
		}
		if err := e.printf("%s: %s\n", t.Topic, what); err != nil {
			return err
		}
	}
	for _, p := range d.Placements {
		if err := e.printf("%s: %s goes from %s to %s\n", p.Topic, picture.Tenant(p.Tenant), p.From, p.To); err != nil {
			return err
		}
	}
	if d.VolumeMoved != nil {
		return e.printf("%.1f %% of the volume moves\n", 100**d.VolumeMoved)
	}
	if len(d.Topics) == 0 {
		return e.printf("nothing moves\n")
	}
	return nil
}
