package store

import (
	"errors"
	"fmt"
)

// ErrRevision says that a table's revision does not follow the current one:
// another writer was faster, or the revision was not raised.
var ErrRevision = errors.New("routing table revision conflict")

// What is wrong with a topic that the store needs. Each comes wrapped in an
// error that names the topic and says what to do.
var (
	// ErrTopicMissing: the topic does not exist.
	ErrTopicMissing = errors.New("topic does not exist")
	// ErrTopicPolicy: the topic's cleanup.policy is not the one that it needs.
	// With any other, the broker deletes entries of the table.
	ErrTopicPolicy = errors.New("topic has the wrong cleanup.policy")
	// ErrTopicPartitions: the topic has not exactly one partition, so that its
	// records have no one order.
	ErrTopicPartitions = errors.New("topic must have exactly one partition")
)

// ErrForeign says that another program wrote into the routing topic: it holds
// records that no version ends. The next change of the table overwrites them.
var ErrForeign = errors.New("routing topic holds records of a foreign writer")

// ErrStaleTable says that a session may no longer route: its lease was not
// renewed in time, or its view of the table is too old. A move may have gone on
// without it.
var ErrStaleTable = errors.New("routing table may be stale: the session's lease is not assured")

// ErrFenced says that another writer took over during a write, more than once.
// Nothing was written.
var ErrFenced = errors.New("another writer of the routing table took over")

// ErrUnconfirmed says that the broker did not answer whether a change was
// committed, and that reading the table did not tell either. It may yet appear.
var ErrUnconfirmed = errors.New("change of the routing table is unconfirmed")

// topicError names the topic.
func topicError(topic string, err error, advice string) error {
	if advice == "" {
		return fmt.Errorf("topic %s: %w", topic, err)
	}
	return fmt.Errorf("topic %s: %w: %s", topic, err, advice)
}
