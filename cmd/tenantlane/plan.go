package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/internal/sample"
	"github.com/tenantlane/tenantlane/partitioner"
	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/rebalance/plan"
	"github.com/tenantlane/tenantlane/rebalance/plan/picture"
)

func newPlanCommand(e *env) *cobra.Command {
	return group("plan", "Work out sizes, whales and growth before anything moves",
		newPlanSizeCommand(e), newPlanWhalesCommand(e), newPlanGrowthCommand(e), newPlanHashCommand(e))
}

// populationFlags is where a plan's tenants come from: a file, or a live topic.
type populationFlags struct {
	file      string
	fromTopic string
	during    time.Duration
	kafka     kafkaFlags
	tenants   hexFlags
}

// register adds the flags; name is the one of the file.
func (p *populationFlags) register(flags *pflag.FlagSet, name string) {
	flags.StringVar(&p.file, name, "", "`file` of tenant<TAB>volume lines or of one tenant per line, - for stdin")
	flags.StringVar(&p.fromTopic, "from-topic", "", "instead of a file: sample this topic while records arrive")
	flags.DurationVar(&p.during, "for", 30*time.Second, "how long --from-topic samples")
	p.tenants.register(flags)
	p.kafka.register(flags)
}

func (p *populationFlags) given() bool { return p.file != "" || p.fromTopic != "" }

// name says where the population comes from.
func (p *populationFlags) name() string {
	switch {
	case p.fromTopic != "":
		return "topic " + p.fromTopic
	case p.file == "-":
		return "stdin"
	}
	return p.file
}

// load reads the file or samples the topic.
func (p *populationFlags) load(ctx context.Context, e *env, rule routing.TenantRule) ([]plan.Volume, error) {
	switch {
	case p.file != "" && p.fromTopic != "":
		return nil, usagef("volumes come from a file or from --from-topic, not from both")
	case p.fromTopic != "":
		return p.sampled(ctx, e, rule)
	}
	var in io.Reader
	if p.file == "-" {
		in = interruptible(ctx, e.stdin)
	} else {
		file, err := os.Open(p.file)
		if err != nil {
			return nil, usagef("volumes: %w", err)
		}
		defer file.Close()
		in = file
	}
	volumes, err := plan.ReadVolumes(in, p.tenants.on)
	if err != nil {
		return nil, usagef("volumes %s: %w", p.file, err)
	}
	if withoutTabs(volumes) {
		e.note("%s: a volume comes after a tab, and no line has one: %q is taken for a tenant's name", p.name(), volumes[0].Tenant)
	}
	return volumes, nil
}

// withoutTabs tells whether each tenant looks like a name and its volume, with
// something else than a tab between them.
func withoutTabs(volumes []plan.Volume) bool {
	for _, v := range volumes {
		i := strings.LastIndexAny(v.Tenant, " ,;")
		if i < 0 {
			return false
		}
		if _, err := strconv.ParseFloat(v.Tenant[i+1:], 64); err != nil {
			return false
		}
	}
	return true
}

// sampledTenants is how many tenants a sample tells apart.
const sampledTenants = 1 << 16

func (p *populationFlags) sampled(ctx context.Context, e *env, rule routing.TenantRule) ([]plan.Volume, error) {
	if p.during <= 0 {
		return nil, usagef("--for is %v, must be above 0", p.during)
	}
	client, err := p.kafka.connect(ctx, zap.NewNop())
	if err != nil {
		return nil, err
	}
	defer client.Close()
	if _, err = topicPartitions(ctx, client, p.fromTopic); err != nil {
		return nil, err
	}
	reader, err := sample.NewReader(client, sample.Config{})
	if err != nil {
		return nil, err
	}
	bar, begun := e.newProgress("sampling "+p.fromTopic+" (s)", int64(p.during.Seconds())), time.Now()
	counts, err := reader.Measure(ctx, p.fromTopic, p.during, sampledTenants, func(r *kgo.Record) ([]byte, bool) {
		bar.set(int64(time.Since(begun).Seconds()))
		return partitioner.TenantOf(rule, r)
	})
	bar.end()
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, kafkaError("sampling", err)
	}
	var volumes []plan.Volume
	for _, entry := range counts.Top(sampledTenants) {
		volumes = append(volumes, plan.Volume{Tenant: entry.Key, Volume: float64(entry.Count)})
	}
	if len(volumes) == 0 {
		return nil, answerNo("no record with a tenant arrived in topic %q in %v; sample for longer with --for", p.fromTopic, p.during)
	}
	return plan.Sorted(volumes), nil
}

// pictureFlags is --svg.
type pictureFlags struct{ svg string }

func (p *pictureFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&p.svg, "svg", "", "also write the picture to this file")
}

// draw writes the SVG if one is asked for, and prints the picture when the
// answer is text.
func (p *pictureFlags) draw(e *env, c picture.Chart, asText bool) error {
	if p.svg != "" {
		if err := os.WriteFile(p.svg, picture.SVG(c), 0o644); err != nil { //nolint:gosec // a picture is for everyone
			return usagef("picture: %w", err)
		}
	}
	if !asText {
		return nil
	}
	return e.printf("%s", picture.Text(c, e.columns()))
}

// columns is the terminal's width as the shell exports it, or 100.
func (e *env) columns() int {
	if s, ok := e.getenv("COLUMNS"); ok {
		if n, err := strconv.Atoi(s); err == nil && n > 0 {
			return n
		}
	}
	return 100
}

// skewJSON is a skew; max/median is null where half of the partitions are empty.
type skewJSON struct {
	MaxMean   float64  `json:"max_mean"`
	MaxMedian *float64 `json:"max_median"`
}

func toSkewJSON(s plan.Skew) skewJSON {
	if math.IsInf(s.MaxMedian, 0) {
		return skewJSON{MaxMean: s.MaxMean}
	}
	return skewJSON{s.MaxMean, &s.MaxMedian}
}

func skewText(s plan.Skew) string {
	if math.IsInf(s.MaxMedian, 0) {
		return fmt.Sprintf("max/mean %.2f, max/median infinite (half of the partitions are empty)", s.MaxMean)
	}
	return fmt.Sprintf("max/mean %.2f, max/median %.2f", s.MaxMean, s.MaxMedian)
}

// writeNew writes a file that does not exist yet, or is empty. A table in use
// is changed by `table` and `move`, never by writing over it; force does.
func writeNew(path string, content []byte, force bool) error {
	if info, err := os.Stat(path); err == nil && info.Size() > 0 && !force {
		return usagef("%s exists; a table in use is changed with `tenantlane table` or `move`, or write another file, or give --force", path)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return usagef("%w", err)
	}
	if err := os.WriteFile(path, content, 0o644); err != nil { //nolint:gosec // a table is read by every producer's user
		return usagef("%w", err)
	}
	return nil
}

// writeTable prints a table to w in its canonical form.
func writeTable(w io.Writer, table *routing.Table) error {
	content, err := table.YAML()
	if err == nil {
		_, err = w.Write(content)
	}
	if err != nil {
		return fmt.Errorf("writing the table: %w", err)
	}
	return nil
}
