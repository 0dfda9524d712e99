// Package grafana makes the dashboard that is deployed, tenantlane.json, from
// code, so that its queries are held to the metrics that exist.
//
//	Dashboard() ──▶ JSON ──▶ tenantlane.json (a test keeps them equal;
//	                         go test ./deploy/grafana -update writes it)
//
// It promises valid JSON of Grafana's dashboard schema, for any Prometheus data
// source (a variable chooses it). It installs nothing.
//
// Panels may be added and moved freely; queries must name metrics of lagwatch or
// consumer.
package grafana
