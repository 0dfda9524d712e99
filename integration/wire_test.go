package integration

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// wire is a client's network, which a test can cut: the process goes on with
// what it has and does not know that others have taken its place.
type wire struct {
	dialer net.Dialer

	mu sync.Mutex
	// guards the fields below
	cut   bool
	conns []net.Conn
}

var errCut = errors.New("the wire is cut")

func (w *wire) opt() kgo.Opt { return kgo.Dialer(w.dial) }

func (w *wire) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := w.dialer.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut {
		_ = conn.Close()
		return nil, errCut
	}
	w.conns = append(w.conns, conn)
	return conn, nil
}

// sever ends all connections and refuses new ones.
func (w *wire) sever() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = true
	for _, conn := range w.conns {
		_ = conn.Close()
	}
}
