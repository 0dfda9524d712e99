// Package wire is a client's network, which can be cut: so a test has a process
// that dies without a word, or one that goes on and does not know that others
// have taken its place.
//
//	kgo.Dialer(w.Dial) ─▶ connections ──Cut──▶ closed, and no new ones
//
// # What may be changed inside
//
// Anything, as long as after Cut nothing that was written reaches the other side
// unless it had left this process before.
package wire
