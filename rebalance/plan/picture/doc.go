// Package picture draws plans: bars for a terminal, and SVG for a file.
//
//	plan's report ─Whales, Growth, Hash, Sizes─▶ Chart ─Text─▶ bars in a terminal
//	                                                   └─SVG─▶ a file, light and dark
//
// It is pure and deterministic: the same chart gives the same bytes. Panels of
// one chart share one scale, so that before and after compare at a glance. An
// SVG stands alone (no script, no font or style from elsewhere), follows the
// viewer's light or dark preference, tells its numbers as text beside each bar
// and never by color alone.
//
// It does not compute: what a bar shows is decided by the functions that make
// charts, how it looks by Text and SVG; either may change without the other.
package picture
