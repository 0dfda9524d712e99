package main

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/pflag"
)

// boundValue is a flag that takes no value its check refuses.
type boundValue struct {
	pflag.Value
	check func(float64) error
}

func (b boundValue) Set(given string) error {
	if err := b.Value.Set(given); err != nil {
		return err
	}
	n, err := strconv.ParseFloat(b.String(), 64)
	if d, wrong := time.ParseDuration(b.String()); err != nil && wrong == nil {
		n = d.Seconds()
	}
	return b.check(n)
}

// bound checks numbers and durations where they are given. For many flags 0 would
// mean a default to the packages below, which a person who typed it did not mean.
func bound(flags *pflag.FlagSet, names []string, check func(float64) error) {
	for _, name := range names {
		flag := flags.Lookup(name)
		flag.Value = boundValue{flag.Value, check}
	}
}

// atLeast bounds flags from below.
func atLeast(flags *pflag.FlagSet, least float64, names ...string) {
	bound(flags, names, func(n float64) error {
		if n < least {
			return fmt.Errorf("want at least %g", least)
		}
		return nil
	})
}

// above0 is for flags that may be any part of 1.
func above0(flags *pflag.FlagSet, names ...string) {
	bound(flags, names, func(n float64) error {
		if n <= 0 {
			return errors.New("want more than 0")
		}
		return nil
	})
}
