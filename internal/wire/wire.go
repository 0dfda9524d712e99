package wire

import (
	"context"
	"errors"
	"net"
	"sync"
)

// ErrCut is what dialing gives after Cut.
var ErrCut = errors.New("the wire is cut")

// Wire is a network that can be cut, for good. The zero value is whole.
type Wire struct {
	dialer net.Dialer

	mu sync.Mutex
	// guards the fields below
	cut   bool
	conns []net.Conn
}

// Dial connects as a net.Dialer does; once the wire is cut it is ErrCut.
func (w *Wire) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := w.dialer.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut {
		return nil, errors.Join(ErrCut, conn.Close())
	}
	w.conns = append(w.conns, conn)
	return conn, nil
}

// Cut ends all connections and refuses new ones.
func (w *Wire) Cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = true
	for _, conn := range w.conns {
		conn.Close()
	}
}
