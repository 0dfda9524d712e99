package lagwatch

import (
	"context"
	"fmt"
	"time"
)

// Round is what one round of Look cost.
type Round struct {
	Evaluation *Evaluation
	// Sampling is the time until the cluster's answers were there, Deciding
	// the time from them to the evaluation.
	Sampling, Deciding time.Duration
}

// Look makes n rounds back to back through one client and tells nobody, for
// measurements. Each is called after each round. It returns early when ctx
// ends, with its error.
func (w *Watcher) Look(ctx context.Context, n int, each func(Round)) error {
	s, _, err := w.connect()
	if err != nil {
		return err
	}
	defer s.client.Close()
	for range n {
		begin := time.Now()
		snap := s.sample(ctx, begin)
		sampled := time.Now()
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("lagwatch: %w", err)
		}
		w.engine.observe(snap)
		e := w.engine.evaluate(snap)
		each(Round{e, sampled.Sub(begin), time.Since(sampled)})
	}
	return nil
}
