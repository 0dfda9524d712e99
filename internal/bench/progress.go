package bench

// Progress is told how much of a measurement is done. It must be quick; nil is
// told nothing.
type Progress func(done, of int)

func (p Progress) tell(done, of int) {
	if p != nil {
		p(done, of)
	}
}
