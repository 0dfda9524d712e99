// Package mute says when an alert shall not be told although it fires: in
// maintenance windows, which a file plans, and under silences, which a person
// makes for a while.
//
//	windows (file) ─┐
//	                ├─▶ Plan.Muted(alert, at) ─▶ by what, or ""
//	silences ───────┘
//
// It is pure: no I/O, no clock. It decides nothing about whether an alert
// fires, and nothing about which targets heed it: pagers with silences of
// their own do not.
//
// Guarantees: the watchdog is never muted, since its silence is an alarm; a
// window follows the clock of its zone, also over a change to summer time; a
// silence that has ended mutes nothing, whatever its file still says.
package mute
