package partitioner

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

// fallback guards the partitioner of topics outside the table. It is somebody
// else's code, and a panic in it would wedge the topic for ever: kgo holds the
// topic's lock while it asks, and for a topic that it does not know yet asks
// from the goroutine that reads metadata.
type fallback struct {
	kgo.TopicPartitioner
	topic  string
	broken error // why there is no TopicPartitioner
}

func fallbackFor(p kgo.Partitioner, topic string) (f *fallback) {
	f = &fallback{topic: topic}
	defer func() {
		if v := recover(); v != nil {
			f.broken = f.panicked(v)
		}
	}()
	f.TopicPartitioner = p.ForTopic(topic)
	return f
}

func (f *fallback) panicked(v any) error {
	return &RouteError{Topic: f.topic, Partition: -1, Err: fmt.Errorf("%w: fallback: %v", ErrPanic, v)}
}

func (f *fallback) requiresConsistency(r *kgo.Record) (yes bool) {
	defer func() {
		if recover() != nil {
			yes = true // partition is asked next and gives the reason
		}
	}()
	return f.broken == nil && f.RequiresConsistency(r)
}

// partition asks the way kgo would: with the backup, if the fallback takes it.
func (f *fallback) partition(r *kgo.Record, n int, backup kgo.TopicBackupIter) (pick int) {
	if f.broken != nil {
		return refuse(r, f.broken)
	}
	defer func() {
		if v := recover(); v != nil {
			pick = refuse(r, f.panicked(v))
		}
	}()
	if b, ok := f.TopicPartitioner.(kgo.TopicBackupPartitioner); ok {
		pick = b.PartitionByBackup(r, n, backup)
	} else {
		pick = f.Partition(r, n)
	}
	if pick < 0 || pick >= n {
		pick = refuse(r, &RouteError{
			Topic: f.topic, Partition: int32(pick), Partitions: int32(n),
			Err: fmt.Errorf("%w: fallback chose %d", ErrOutOfRange, pick),
		})
	}
	return pick
}

func (f *fallback) onNewBatch() {
	defer func() { _ = recover() }() // the next answer shows what is wrong
	f.TopicPartitioner.(kgo.TopicPartitionerOnNewBatch).OnNewBatch()
}

// The optional methods that kgo looks for by assertion.
type (
	byBackup struct{ *topicPartitioner }
	byBatch  struct{ *topicPartitioner }
	byBoth   struct{ byBackup }
)

// withOptions gives t those optional methods that its fallback has. To have
// them all would cost: kgo holds the topic's lock while it buffers a record if
// there is an OnNewBatch.
func withOptions(t *topicPartitioner) kgo.TopicPartitioner {
	_, backup := t.fallback.TopicPartitioner.(kgo.TopicBackupPartitioner)
	_, batch := t.fallback.TopicPartitioner.(kgo.TopicPartitionerOnNewBatch)
	switch {
	case backup && batch:
		return byBoth{byBackup{t}}
	case backup:
		return byBackup{t}
	case batch:
		return byBatch{t}
	}
	return t
}

// OnNewBatch is called by kgo before a record starts a new batch.
func (t byBatch) OnNewBatch() { t.fallback.onNewBatch() }

// OnNewBatch is called by kgo before a record starts a new batch.
func (t byBoth) OnNewBatch() { t.fallback.onNewBatch() }
