package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenantlane/tenantlane/consumer"
	"github.com/tenantlane/tenantlane/consumer/admin"
)

// laneRow is a tenant at a worker.
type laneRow struct {
	Worker string `json:"worker"`
	admin.Tenant
}

func newLanesListCommand(e *env) *cobra.Command {
	var f lanesFlags
	var filter consumer.TenantFilter
	state := ""
	cmd := &cobra.Command{
		Use:   "list [TENANT…] --admin URL",
		Short: "Show what tenants do at a worker, and the records that hold them up",
		Long: "Shows the tenants that want a look first (paused, parked, failing, held by a move, limited), then the deepest. Under a tenant\n" +
			"are the records that hold up a lane of it, as topic/partition/offset, with the handler's last error.\n" +
			"DEPTH and OLDEST are of what the worker has in memory: what it has not fetched is the group's lag.",
		Example: "  tenantlane lanes list --admin http://127.0.0.1:9400\n" +
			"  tenantlane lanes list --state parked --format json --admin http://127.0.0.1:9400\n" +
			"  tenantlane lanes list acme-corp --admin http://127.0.0.1:9400",
		RunE: func(cmd *cobra.Command, args []string) error {
			filter.State = consumer.TenantState(state)
			rows, err := f.rows(cmd.Context(), args, filter)
			if printed := e.printLanes(&f, rows); printed != nil {
				return printed
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.Var(choice(&state, "paused", "parked", "failing", "fence", "moved", "table", "limited", "running", "waiting"), "state", "only tenants in this state")
	flags.IntVar(&filter.Most, "limit", 100, "how many tenants of each worker at most")
	f.register(flags)
	return cmd
}

// rows asks each worker for the tenants named, or for those that the filter
// wants.
func (f *lanesFlags) rows(ctx context.Context, names []string, filter consumer.TenantFilter) (rows []laneRow, err error) {
	tenants := make([][]byte, 0, len(names))
	for _, given := range names {
		name, wrong := f.hex.tenant(given)
		if wrong != nil {
			return nil, wrong
		}
		tenants = append(tenants, name)
	}
	err = f.ask(ctx, func(worker string, c *admin.Client) error {
		list, failed := look(ctx, c, tenants, filter)
		for _, t := range list {
			rows = append(rows, laneRow{worker, t})
		}
		return failed
	})
	return rows, err
}

// look asks one worker.
func look(ctx context.Context, c *admin.Client, tenants [][]byte, filter consumer.TenantFilter) (list []admin.Tenant, err error) {
	if len(tenants) == 0 {
		return c.Tenants(ctx, filter)
	}
	for _, name := range tenants {
		one, err := c.Tenant(ctx, name)
		if err != nil {
			return list, err
		}
		list = append(list, one)
	}
	return list, nil
}

func (e *env) printLanes(f *lanesFlags, rows []laneRow) error {
	if f.output.json() {
		for _, row := range rows {
			if err := e.printJSON(row); err != nil {
				return err
			}
		}
		return nil
	}
	table := tabwriter.NewWriter(e.stdout, 0, 0, 2, ' ', 0)
	if len(rows) > 0 {
		fmt.Fprintln(table, "WORKER\tTENANT\tSTATE\tTIER\tDEPTH\tOLDEST\tRATE\tRUNNING\tETA")
	}
	for i := range rows {
		printLane(table, &rows[i])
	}
	for i := range rows {
		printTroubles(table, &rows[i])
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("writing the answer: %w", err)
	}
	return nil
}

// name is the tenant as it is printed.
func (r *laneRow) name() string {
	if r.TenantHex != "" {
		return "0x" + r.TenantHex
	}
	return r.Tenant.Tenant
}

func printLane(w io.Writer, r *laneRow) {
	depth := strconv.Itoa(r.Depth)
	if r.Skipped > 0 {
		depth += "+" // and what is to be read again
	}
	fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%.1f/s\t%d\t%s\n",
		r.Worker, r.name(), r.State, r.Tier, depth, seconds(r.OldestS), r.Rate, r.InFlight, seconds(r.ETAS))
}

// printTroubles says what holds a tenant up.
func printTroubles(w io.Writer, r *laneRow) {
	if r.PausedAt != nil {
		fmt.Fprintf(w, "%s is paused since %s by %s: %s\n", r.name(), r.PausedAt.Format(time.RFC3339), r.PausedBy, r.PausedFor)
	}
	for _, held := range r.Troubles {
		fmt.Fprintf(w, "%s %s\n", r.name(), troubleText(&held))
	}
}

func troubleText(held *admin.Trouble) string {
	text := "is tried again"
	if held.Parked {
		text = "is parked"
	}
	text += fmt.Sprintf(" at %s/%d/%d", held.Topic, held.Partition, held.Offset)
	switch held.Attempts {
	case 0: // it was told to wait, or another process tried it
	case 1:
		text += " after 1 attempt"
	default:
		text += fmt.Sprintf(" after %d attempts", held.Attempts)
	}
	if held.Error == "" {
		return text + "; the log of the worker that tried it says why"
	}
	return text + ": " + held.Error
}

// seconds prints a time that may not be known.
func seconds(s *float64) string {
	if s == nil {
		return "-"
	}
	return time.Duration(*s * float64(time.Second)).Round(100 * time.Millisecond).String()
}
