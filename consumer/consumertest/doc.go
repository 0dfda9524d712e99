// Package consumertest runs a user's handler as a worker would, in a test and
// without a broker to start: with lanes, retries, parked and dead-lettered
// records, stops and crashes.
//
//	w := consumertest.Start(t, consumertest.Config{}, handle)
//	w.Send("acme", "order 1", "order 2")
//	w.Settle()                       // all is done, or parked
//	w.Crash()                        // and another worker takes over
//	w.Settle()
//	w.Handlings()                    // what the handler got, and what it answered
//
// # What it guarantees
//
//   - It is the real runtime, on a Kafka that lives inside the test's process:
//     what holds here holds for a worker, order and repeats included.
//   - Everything ends with the test.
//
// # What it does not
//
// It does not judge: the test looks at Handlings. It is not fast enough for
// millions of records.
//
// # What may be changed inside
//
// The broker behind it.
package consumertest
