package grafana

import (
	"encoding/json"
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// one is a selector for the groups and topics that the variables choose.
const one = `{group=~"$group",topic=~"$topic"}`

// board is a dashboard of schema 1, which every Grafana in use reads; the SDK
// prefers version 2, which needs Grafana 12.
type board = dashboard.DashboardBuilder //nolint:staticcheck // see above

func builder(title string) *board {
	return dashboard.NewDashboardBuilder(title) //nolint:staticcheck // see board
}

// Dashboard returns the dashboard as indented JSON.
func Dashboard() ([]byte, error) {
	b := builder("TenantLane").
		Uid("tenantlane").Tags([]string{"tenantlane", "kafka"}).Refresh("30s").Time("now-3h", "now").
		Timezone(common.TimeZoneBrowser).Tooltip(dashboard.DashboardCursorSyncCrosshair).
		WithVariable(dashboard.NewDatasourceVariableBuilder("source").Label("Data source").Type("prometheus")).
		WithVariable(choice("group", "Group", `label_values(tenantlane_lagwatch_unknown_partitions, group)`)).
		WithVariable(choice("topic", "Topic", `label_values(tenantlane_lagwatch_unknown_partitions{group=~"$group"}, topic)`))
	sight(b)
	lateness(b)
	workers(b)
	made, err := b.Build()
	if err != nil {
		return nil, fmt.Errorf("dashboard: %w", err)
	}
	data, err := json.MarshalIndent(made, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("dashboard: %w", err)
	}
	return append(data, '\n'), nil
}

// sight is whether the watcher sees, and what it found.
func sight(b *board) {
	b.WithRow(dashboard.NewRowBuilder("What is wrong")).
		WithPanel(number("Open pages", `count(max by (alert, group, topic, pool) (tenantlane_lagwatch_alert_firing{severity=~"page|critical",alert!="watchdog"})) or vector(0)`, 0, 1)).
		WithPanel(number("Open tickets", `count(max by (alert, group, topic, pool) (tenantlane_lagwatch_alert_firing{severity="ticket",alert!="watchdog"})) or vector(0)`, 0, 1)).
		WithPanel(number("Partitions not seen", `sum(max by (group, topic, pool) (tenantlane_lagwatch_unknown_partitions))`, 0, 1)).
		WithPanel(number("Seconds since the last look", `time() - max(tenantlane_lagwatch_evaluation_timestamp_seconds)`, 30, 120)).
		WithPanel(lines("Open alerts", "short", query(`max by (alert, group, topic, pool) (tenantlane_lagwatch_alert_firing{alert!="watchdog"})`, "{{alert}} {{group}} {{topic}} {{pool}}")))
}

// lateness is lag, delay and skew.
func lateness(b *board) {
	b.WithRow(dashboard.NewRowBuilder("Lag")).
		WithPanel(lines("Ten largest lags", "short", query(`topk(10, max by (group, topic, partition) (tenantlane_lagwatch_lag_records`+one+`))`, "{{group}} {{topic}} {{partition}}"))).
		WithPanel(lines("Ten largest delays", "s", query(`topk(10, max by (group, topic, partition) (tenantlane_lagwatch_delay_seconds`+one+`))`, "{{group}} {{topic}} {{partition}}"))).
		WithPanel(lines("Ten largest ratios to the peers' baseline", "short", query(`topk(10, max by (group, topic, partition) (tenantlane_lagwatch_ratio`+one+`))`, "{{group}} {{topic}} {{partition}}"))).
		WithPanel(lines("Lag by group", "short", query(`sum by (group) (max by (group, topic, partition) (tenantlane_lagwatch_lag_records`+one+`))`, "{{group}}"))).
		WithPanel(lines("Skew of pools", "short", query(`max by (group, topic, pool) (tenantlane_lagwatch_skew`+one+`)`, "{{group}} {{topic}} {{pool}}")))
}

// workers is what the consumers are doing.
func workers(b *board) {
	const quantile = `histogram_quantile(0.99, sum by (tier, le) (rate(tenantlane_consumer_%s_seconds_bucket[$__rate_interval])))`
	b.WithRow(dashboard.NewRowBuilder("Workers")).
		WithPanel(lines("Records handled", "ops", query(`sum by (topic) (rate(tenantlane_consumer_handled_records_total{topic=~"$topic"}[$__rate_interval]))`, "{{topic}}"))).
		WithPanel(lines("Queue time, 99th percentile by tier", "s", query(fmt.Sprintf(quantile, "queue"), "{{tier}}"))).
		WithPanel(lines("Handler time, 99th percentile by tier", "s", query(fmt.Sprintf(quantile, "handler"), "{{tier}}"))).
		WithPanel(lines("Work for workers, and workers", "short",
			query(`sum(tenantlane_consumer_useful_workers)`, "lanes with work"), query(`sum(tenantlane_consumer_workers)`, "workers"))).
		WithPanel(lines("Lanes parked, handlers stuck", "short",
			query(`sum(tenantlane_consumer_parked_lanes)`, "parked"), query(`sum(tenantlane_consumer_stuck_handlers)`, "stuck"))).
		WithPanel(lines("Retries, dead letters, lost records", "ops",
			query(`sum(rate(tenantlane_consumer_retries_total[$__rate_interval]))`, "retries"),
			query(`sum(rate(tenantlane_consumer_dead_letters_total[$__rate_interval]))`, "dead letters"),
			query(`sum(rate(tenantlane_consumer_lost_records_total[$__rate_interval]))`, "lost")))
}

func source() common.DataSourceRef {
	return common.DataSourceRef{Type: new("prometheus"), Uid: new("${source}")}
}

// choice is a variable with the values of a label, all by default.
func choice(name, label, values string) *dashboard.QueryVariableBuilder {
	return dashboard.NewQueryVariableBuilder(name).Label(label).Datasource(source()).
		Query(dashboard.StringOrMap{String: new(values)}).Refresh(dashboard.VariableRefreshOnTimeRangeChanged).
		Multi(true).IncludeAll(true).AllValue(".*").Sort(dashboard.VariableSortAlphabeticalAsc)
}

func query(expr, legend string) *prometheus.DataqueryBuilder {
	return prometheus.NewDataqueryBuilder().Expr(expr).LegendFormat(legend).Datasource(source())
}

func lines(title, unit string, queries ...*prometheus.DataqueryBuilder) *timeseries.PanelBuilder {
	p := timeseries.NewPanelBuilder().Title(title).Unit(unit).Min(0).Datasource(source()).Span(12).Height(8)
	for _, q := range queries {
		p.WithTarget(q)
	}
	return p
}

// number is one figure, yellow from warn and red from bad on.
func number(title, expr string, warn, bad float64) *stat.PanelBuilder {
	steps := []dashboard.Threshold{
		{Color: "green"}, {Value: new(warn + 0.5), Color: "yellow"}, {Value: new(bad), Color: "red"},
	}
	if warn+0.5 >= bad {
		steps = []dashboard.Threshold{{Color: "green"}, {Value: new(bad), Color: "red"}}
	}
	return stat.NewPanelBuilder().Title(title).Datasource(source()).Span(6).Height(4).
		Thresholds(dashboard.NewThresholdsConfigBuilder().Mode(dashboard.ThresholdsModeAbsolute).Steps(steps)).
		WithTarget(query(expr, ""))
}
