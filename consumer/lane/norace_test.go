//go:build !race

package lane_test

const raceFactor = 1
