package bench

import (
	"context"
	"runtime/pprof"
)

// Values of the label "side" that a processor profile's samples have.
const (
	sideBare = "bare"
	sideOurs = "tenantlane"
)

// labeled runs f, and all goroutines that it starts, as one side of a profile.
func labeled(ctx context.Context, side string, f func(context.Context) error) (err error) {
	pprof.Do(ctx, pprof.Labels("side", side), func(ctx context.Context) { err = f(ctx) })
	return err
}
