//go:build !race

package integration

// raceDetector tells how the tests were built.
const raceDetector = false
