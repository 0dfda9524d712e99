package wire_test

import (
	"errors"
	"net"
	"testing"

	"github.com/tenantlane/tenantlane/internal/wire"
)

func TestCutEndsConnectionsAndRefusesNewOnes(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	var w wire.Wire
	conn, err := w.Dial(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte("x")); err != nil {
		t.Errorf("writing to a whole wire: %v", err)
	}
	w.Cut()
	w.Cut() // again is fine
	if _, err := conn.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("writing to a cut wire: %v, want %v", err, net.ErrClosed)
	}
	if _, err := w.Dial(t.Context(), "tcp", listener.Addr().String()); !errors.Is(err, wire.ErrCut) {
		t.Errorf("dialing: %v, want %v", err, wire.ErrCut)
	}
}
