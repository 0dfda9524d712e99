// Package embedded runs an Apache Kafka broker inside the process, for the
// demo, the benchmarks, the broker command and the tests of every other
// package.
//
// It is [kfake], the broker that the authors of the Kafka client keep beside
// it, with this project's defaults. Clients reach it over real TCP, so that
// everything above the socket is what runs against a real Kafka.
//
//	Start(Config) ──▶ listeners bound ──▶ (data directory read) ──▶ *Broker
//	                                                                  │ Addrs ──▶ kgo.SeedBrokers
//	Close ◀──────────────────────────────────────────────────────────┘
//
// # Guarantees
//
//   - It listens on a loopback address and a free port unless Config.Listen
//     says otherwise, and it listens before Start returns.
//   - With Config.DataDir set, topics, records, groups and their commits are
//     back after Close and the next Start, and two brokers never share a
//     directory.
//
// # What it does not do
//
// It is not a broker for production: one process, no replication, all records
// in memory unless a data directory is given, and a data directory is written
// without fsync (a crash of the machine may lose its tail). It does not prove
// what a real Kafka does either, which is why package integration runs the
// same tests against both.
//
// # What may change inside
//
// The broker behind it: users see Addrs and Close. Tests that steer faults use
// Cluster, and only they would notice.
//
// [kfake]: https://pkg.go.dev/github.com/twmb/franz-go/pkg/kfake
package embedded
