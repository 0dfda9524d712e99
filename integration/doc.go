// Package integration holds what the whole system promises against a running
// Kafka. All of it is tests: plain "go test", which starts what it needs.
//
//	a scenario (steady, join, leave, crash, move, …)      each × each broker
//	    │ plays with real clients over TCP                 embedded │ Apache Kafka
//	    ▼
//	produced, handled, committed ──▶ internal/check ──▶ each guarantee is a test
//
// A guarantee is judged after every scenario by the same code, and every
// scenario runs on every broker by the same code, so that a guarantee that
// holds only in fair weather, or only on the embedded broker, cannot pass.
//
// # Which brokers
//
// The embedded broker always runs. For the real one:
//
//   - KAFKA_BROKERS names one, else
//   - java and mvn start one (package integration/kafka), else
//   - the suite says that there is none and runs without; with
//     TENANTLANE_REQUIRE_KAFKA=1 it fails instead.
//
// The first line of output says which. With -short there is no real broker.
// Names of topics and groups are new for each test, and topics are deleted at
// its end, so that a shared broker can be used.
//
// # What it does not do
//
// It does not measure: no test asserts how long something took. It does not
// replace the packages' own tests, which explore what is too rare to meet
// here.
//
// # What may be changed inside
//
// Everything: nothing imports this package. A new promise is one more entry in
// guarantees, a new fault one more in scenarios.
package integration
