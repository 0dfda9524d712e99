// Package kafka starts real Apache Kafka brokers for tests, without Docker: a
// broker is one java process, and its jars come from Maven Central.
//
//	Start ─▶ jars (cached) ─▶ ports ─▶ format ─▶ java … java ─▶ ready ─▶ *Cluster
//	                                               ▲     │
//	                                        Restart└─────┘Kill, Pause, Resume
//	Stop ─▶ every process ended, files removed; logs kept if something failed
//
// # Guarantees
//
//   - Start returns once every node is in the cluster's metadata and a group
//     coordinator answers, so that a test's first request is not the one that
//     waits for the broker.
//   - Everything it writes is below one new directory, which Stop removes. What
//     a killed process left behind is removed by the next Start.
//   - No broker outlives the process that started it: on Linux the kernel kills
//     it with its parent, however the parent ends.
//   - A node that ends by itself fails Stop, and its log is kept; the error
//     shows where, and the log's tail.
//   - A node keeps its port and its data through Kill and Restart.
//
// # What it does not do
//
// It does not secure the brokers (they listen on 127.0.0.1 only), and it does
// not tune them for speed. Topics are administered by kadm, since each of
// Kafka's own tools costs a JVM start.
//
// # What may change inside
//
// Where the jars come from (jars.go), how a process is held (node.go,
// process_linux.go) and what is waited for (ready.go). Settings in settings.go
// are held equal to docker-compose.kafka.yml by a test.
package kafka
