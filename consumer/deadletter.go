package consumer

import (
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Headers of a dead letter, after those of the record itself. Its key and value
// are the record's own.
const (
	HeaderDeadError     = "tl-dlq-error"     // why it is here, text
	HeaderDeadAttempts  = "tl-dlq-attempts"  // how often it was handled, decimal
	HeaderDeadGroup     = "tl-dlq-group"     // whose worker gave it up
	HeaderDeadTopic     = "tl-dlq-topic"     // where it lay
	HeaderDeadPartition = "tl-dlq-partition" // decimal
	HeaderDeadOffset    = "tl-dlq-offset"    // decimal
	HeaderDeadTime      = "tl-dlq-time"      // when it was given up, Unix ms
)

// maxDeadError bounds the error text in a header, in bytes: a handler's error
// may quote a whole document.
const maxDeadError = 1024

// deadLetter returns the record to write to topic for r, which failed with
// err after attempts handlings.
func deadLetter(r *kgo.Record, topic, group string, attempts int, err error) *kgo.Record {
	letter := copyRecord(r)
	letter.Topic = topic
	// A timestamp in the past would count against the delivery timeout, and
	// retention would delete an old record's letter at once.
	letter.Timestamp = time.Time{}
	letter.Headers = append(letter.Headers,
		header(HeaderDeadError, cut(err.Error(), maxDeadError)),
		header(HeaderDeadAttempts, strconv.Itoa(attempts)),
		header(HeaderDeadGroup, group),
		header(HeaderDeadTopic, r.Topic),
		header(HeaderDeadPartition, strconv.Itoa(int(r.Partition))),
		header(HeaderDeadOffset, strconv.FormatInt(r.Offset, 10)),
		header(HeaderDeadTime, strconv.FormatInt(time.Now().UnixMilli(), 10)),
	)
	return letter
}

func header(key, value string) kgo.RecordHeader {
	return kgo.RecordHeader{Key: key, Value: []byte(value)}
}

// cut returns at most n bytes of s, ending between two characters.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// likeOrigin puts a letter into the partition with the number that its record
// had, modulo the partitions there are: so a lane's letters lie in one
// partition, in the lane's order, and can be replayed in it.
func likeOrigin(string) func(*kgo.Record, int) int {
	return func(letter *kgo.Record, n int) int { return int(letter.Partition) % n }
}
