//go:build race

package lag_test

const raceEnabled = true
