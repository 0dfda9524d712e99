// Package testkit holds what the tests of several packages need: a broker of
// their own, a client of it, and a wait for what must happen.
//
//	Broker(t) ─▶ *embedded.Broker ─▶ Client(t, broker) ─▶ *kgo.Client
//	Await(ctx, t, "what", holds)
//
// Helpers fail the test themselves and clean up at its end, clients before
// their broker.
//
// It imports none of our packages but internal/embedded, so that any package
// outside can use it from its external tests (package x_test).
//
// # What may be changed inside
//
// How a broker is started and what a client is set to, as long as nothing is
// left running when a test ends.
package testkit
