package kafka

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are drawn below Linux's and above IANA's well-used ranges: a port that
// the kernel hands out (":0") may be given to an outgoing connection while a
// killed node is down, and the node could not come back on it.
const firstPort, portCount = 20000, 12000

// freePorts returns n different ports that nothing listens on now.
func freePorts(n int) ([]int, error) {
	var ports []int
	held := make([]net.Listener, 0, n)
	defer func() {
		for _, l := range held {
			_ = l.Close()
		}
	}()
	for try := 0; len(ports) < n; try++ {
		if try == 100*n {
			return nil, fmt.Errorf("no free port found in %d tries from %d to %d", try, firstPort, firstPort+portCount)
		}
		port := firstPort + rand.IntN(portCount)
		l, err := net.Listen("tcp", loopback(port))
		if err != nil {
			continue
		}
		held = append(held, l)
		ports = append(ports, port)
	}
	return ports, nil
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// addresses draws what the nodes listen on; with first > 0 the client ports
// are first, first+1, …
func addresses(nodes, first int) ([]address, error) {
	ports, err := freePorts(2 * nodes)
	if err != nil {
		return nil, err
	}
	addrs := make([]address, nodes)
	for i := range addrs {
		client := ports[2*i]
		if first > 0 {
			client = first + i
		}
		addrs[i] = address{client: loopback(client), controller: loopback(ports[2*i+1])}
	}
	return addrs, nil
}
