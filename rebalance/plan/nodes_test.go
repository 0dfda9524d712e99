package plan

import "testing"

// Values of the authors' C++ code, as its ports publish them.
func TestJumpGivesTheAuthorsValues(t *testing.T) {
	for _, test := range []struct {
		sum     uint64
		n, want int
	}{{1, 1, 0}, {42, 57, 43}, {0xDEAD10CC, 1, 0}, {0xDEAD10CC, 666, 361}, {256, 1024, 520}} {
		if got := jump(test.sum, test.n); got != test.want {
			t.Errorf("jump(%d, %d) = %d, want %d", test.sum, test.n, got, test.want)
		}
	}
}
