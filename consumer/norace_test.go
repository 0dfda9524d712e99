//go:build !race

package consumer

const raceFactor = 1
