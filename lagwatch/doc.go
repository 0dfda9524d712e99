// Package lagwatch watches consumer groups and pages when one partition falls
// behind its peers, saying whose records did it. It never takes its own
// blindness for health.
//
//	sampler ──▶ Snapshot ──▶ engine ──────────▶ Evaluation ──▶ notify, metrics, JSON
//	 asks Kafka   what was     lag.Log, lag.Tracker     │
//	 in 3 stages  learned      per (group, topic)       └─ open alert: whose records?
//	                │                                       sample + sketch ─▶ tenant
//	                └──▶ recording (JSON lines)
//
// A round of questions, each stage within a third of the time, because a hung
// broker costs each stage its deadline:
//
//	metadata ∥ list groups │ describe groups ∥ commits │ starts ∥ ends ∥ stable
//
// Beside the rounds: once a minute the logs' sizes and a few of the records that
// arrive (inflow: top tenants, plans); once an hour a sweep of the table's topics
// (sweep, stale: findings, which stay until a sweep that sees the topic no longer
// finds them). What people say comes in by the journal: silences and markers.
// What moves in the table explains why records wait, for a while.
//
// Guarantees:
//
//   - The inventory is sticky. What an answer leaves out, whatever its error
//     says, is unknown: not 0, not resolved. Commits that are missing from a
//     list are asked for by name, because a broker leaves out silently what
//     one may not see. Only a day of the cluster denying that a thing exists
//     removes it.
//   - An Evaluation that did not see everything is Blind.
//   - A partition is seen only if its commit, start and end were all read in
//     the same round, commits first.
//   - The decision is made by lagwatch/lag from the snapshot alone; the
//     watcher adds tenants and words.
//   - It reads; it never joins a group that it watches, commits for one, or
//     changes the cluster. Replicas have a group of their own, whose commit
//     carries what was told.
//   - What is muted fires and is shown all the same; nobody without the API's
//     token changes anything.
//
// It does not promise to see what a permission hides from the beginning, and
// it samples: a lag that comes and goes within an interval is not seen.
//
// What may change inside: how the questions are asked (sampler, groups,
// commits, logs), as long as a Snapshot keeps Unread apart from None; the
// words (describe); the web page. The rule is not here.
package lagwatch
