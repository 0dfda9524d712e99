package plan

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

// RingVirtualNodes is how many points each node has on the ring.
const RingVirtualNodes = 100

// NodeFunc maps a key to one of n nodes, numbered from 0. It is safe for
// concurrent use unless its maker says otherwise.
type NodeFunc func(key []byte) int

// Modulo is the hash's own remainder by n, signed or unsigned as the client
// that the hash comes from has it. Going from n to n+1 nodes moves n/(n+1) of
// the keys.
func Modulo(h routing.Hash, n int) NodeFunc {
	return func(key []byte) int { return int(h.Slot(h.Sum(key), int32(n))) }
}

// Jump is the jump consistent hash of Lamping and Veach (2014), over the key's
// hash. Going from n to m nodes moves the least possible share, but a node can
// only be added or removed at the end.
func Jump(h routing.Hash, n int) NodeFunc {
	return func(key []byte) int { return jump(h.Sum(key), n) }
}

func jump(sum uint64, n int) int {
	var b, j int64 = -1, 0
	for j < int64(n) {
		b = j
		sum = sum*2862933555777941757 + 1
		j = int64(float64(b+1) * (float64(int64(1)<<31) / float64((sum>>33)+1)))
	}
	return int(b)
}

// Ring is a consistent-hash ring: node i (from 1) has RingVirtualNodes points,
// the hashes of `db-i:0` to `db-i:99`; a key belongs to the first point at or
// after its hash, wrapping.
func Ring(h routing.Hash, n int) NodeFunc {
	type point struct {
		at   uint64
		node int
	}
	points := make([]point, 0, n*RingVirtualNodes)
	for node := range n {
		for v := range RingVirtualNodes {
			label := nodeName(nil, node)
			label = strconv.AppendInt(append(label, ':'), int64(v), 10)
			points = append(points, point{h.Sum(label), node})
		}
	}
	slices.SortFunc(points, func(a, b point) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.node, b.node))
	})
	return func(key []byte) int {
		i, _ := slices.BinarySearchFunc(points, h.Sum(key), func(p point, sum uint64) int {
			return cmp.Compare(p.at, sum)
		})
		return points[i%len(points)].node
	}
}

// Rendezvous gives a key to the node with the highest hash of `key:db-i`, i
// from 1; the lower node wins a tie.
func Rendezvous(h routing.Hash, n int) NodeFunc {
	return func(key []byte) int {
		label := make([]byte, 0, len(key)+16)
		label = append(append(label, key...), ':')
		best, top := 0, uint64(0)
		for node := range n {
			if sum := h.Sum(nodeName(label, node)); node == 0 || sum > top {
				best, top = node, sum
			}
		}
		return best
	}
}

// nodeName appends the name of a node to dst, whose spare room it may use.
func nodeName(dst []byte, node int) []byte {
	return strconv.AppendInt(append(dst, "db-"...), int64(node)+1, 10)
}
