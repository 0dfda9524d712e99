package main

import (
	"encoding/hex"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/partitioner/adopt"
	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/rebalance/plan/picture"
)

type verifyJSON struct {
	Records       int64            `json:"records"`
	Matching      float64          `json:"matching"` // share of the records, 0 to 1
	Differences   []differenceJSON `json:"differences"`
	WithoutTenant int64            `json:"without_tenant"`
	Older         int64            `json:"older"` // routed before the tenant's present placement, not compared
}

type differenceJSON struct {
	Partition int32   `json:"partition"`
	Offset    int64   `json:"offset"`
	Tenant    string  `json:"tenant"`
	TenantHex string  `json:"tenant_hex"`
	Want      []int32 `json:"want"`
	WantTopic string  `json:"want_topic"`
}

func newTableVerifyCommand(e *env) *cobra.Command {
	var output outputFlags
	var table tableFlags
	var kafka kafkaFlags
	var topic string
	var c adopt.Config
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Whether a topic's records lie where the table says",
		Long: "Reads the tail of each partition and compares where each record with a tenant lies with where the\n" +
			"table sends it. Exit code 1 if any differs, or if there is none to compare. A record that nobody stamped\n" +
			"(its client has no partitioner.Producer) is compared with the present table, however old it is: what\n" +
			"was written before its tenant was placed differs for as long as the topic holds it.",
		Example: "  tenantlane table verify --topic orders --table routing.yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			got, err := table.read(ctx)
			if err != nil {
				return err
			}
			at, err := pickTopic(got, topic)
			if err != nil {
				return err
			}
			if c.PerPartition < 1 || c.Differences < 1 {
				return usagef("--per-partition and --differences must be at least 1")
			}
			client, err := kafka.connect(ctx, zap.NewNop())
			if err != nil {
				return err
			}
			defer client.Close()
			if _, err = topicPartitions(ctx, client, at.Name()); err != nil {
				return err
			}
			bar := e.newProgress("reading "+at.Name(), 0)
			c.Progress = func(done, of int64) { bar.total = of; bar.set(done) }
			report, err := adopt.Verify(ctx, client, at, c)
			bar.end()
			if err != nil {
				return kafkaError("verifying", err)
			}
			return e.printVerified(at, report, output.json())
		},
	}
	flags := cmd.Flags()
	table.register(flags, &kafka)
	kafka.register(flags)
	flags.StringVar(&topic, "topic", "", "topic to read (default: the table's only one)")
	flags.Int64Var(&c.PerPartition, "per-partition", 1000, "how many of each partition's last records are read")
	flags.IntVar(&c.Differences, "differences", 10, "how many differences are named")
	output.register(flags)
	return cmd
}

func (e *env) printVerified(topic *routing.Topic, r adopt.Report, asJSON bool) error {
	var err error
	if asJSON {
		err = e.printJSON(verifiedAnswer(r))
	} else {
		err = e.printVerifiedText(topic, r)
	}
	switch {
	case err != nil:
		return err
	case r.Records == 0:
		return answerNo("topic %q has no record with a tenant (%s) to compare", topic.Name(), topic.TenantRule())
	case r.Matching < r.Records:
		return answerNo("%d of %d records of topic %q do not lie where the table says", r.Records-r.Matching, r.Records, topic.Name())
	}
	return nil
}

func verifiedAnswer(r adopt.Report) verifyJSON {
	answer := verifyJSON{
		Records: r.Records, Matching: r.Share(), Differences: []differenceJSON{}, WithoutTenant: r.WithoutTenant, Older: r.Older,
	}
	for _, d := range r.Differences {
		text, _ := tenantText(d.Tenant)
		j := differenceJSON{d.Partition, d.Offset, text, hex.EncodeToString(d.Tenant), d.Want, d.WantTopic}
		if j.Want == nil {
			j.Want = []int32{}
		}
		answer.Differences = append(answer.Differences, j)
	}
	return answer
}

func (e *env) printVerifiedText(topic *routing.Topic, r adopt.Report) error {
	if err := e.printf("topic %s: %.1f %% of %d records lie where the table says (%d without a tenant, %d from before their tenant's present placement)\n",
		topic.Name(), percent(r), r.Records, r.WithoutTenant, r.Older); err != nil {
		return err
	}
	for _, d := range r.Differences {
		to := "partition " + routing.FormatPartitions(d.Want)
		if d.WantTopic != "" {
			to = "topic " + d.WantTopic
		}
		if err := e.printf("  partition %d offset %d: %s belongs to %s\n", d.Partition, d.Offset, picture.Tenant(string(d.Tenant)), to); err != nil {
			return err
		}
	}
	return nil
}

// percent never rounds up to 100.0.
func percent(r adopt.Report) float64 {
	if r.Matching < r.Records {
		return min(100*r.Share(), 99.9)
	}
	return 100 * r.Share()
}
