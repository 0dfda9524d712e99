//go:build race

package lane_test

// raceFactor divides the size of tests that the race detector makes ten times
// slower and that have only one goroutine to watch.
const raceFactor = 10
