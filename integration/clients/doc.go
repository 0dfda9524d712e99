// Package clients fills topics with the Kafka clients that topics are filled
// with in the world, each with its default settings: Java, franz-go, sarama and
// librdkafka. Its test adopts each topic with the command and requires that the
// table finds every record where the client put it.
//
//	keys ──▶ Java │ franz-go │ sarama │ librdkafka ──▶ topic on a real broker
//	                                                      │
//	tenantlane table init --clients C ──▶ table ──verify──┘──▶ 100.0 %
//
// It is a module of its own, so that nobody who uses TenantLane downloads
// these clients. It needs a C compiler (librdkafka comes prebuilt with its Go
// binding), java and mvn; the test says so when it runs without one of them.
//
// More clients may be added here without touching anything else.
package clients
