//go:build race

package consumer

// raceFactor divides the size of tests that the race detector makes thirty
// times slower and that have only a few goroutines to watch.
const raceFactor = 5
