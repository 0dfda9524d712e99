package lagwatch

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// sizesEvery is how often logs' sizes are asked for.
const sizesEvery = time.Minute

// sizes learns how large the logs are, once a minute. Without the permission
// to describe the cluster nothing is known of bytes.
func (r *round) sizes(ctx context.Context) {
	r.mu.Lock()
	req := kmsg.NewPtrDescribeLogDirsRequest()
	for _, name := range r.inv.topicNames() {
		if t := r.topicAt[name]; t == nil || !t.Known {
			continue
		}
		t := kmsg.NewDescribeLogDirsRequestTopic()
		t.Topic = name
		for p := range r.inv.topics[name].Partitions {
			t.Partitions = append(t.Partitions, int32(p))
		}
		req.Topics = append(req.Topics, t)
	}
	due := r.at.Sub(r.sizedAt) >= sizesEvery && len(req.Topics) > 0
	if due {
		r.sizedAt = r.at
	}
	r.mu.Unlock()
	if !due {
		return
	}
	for _, shard := range r.client.RequestSharded(ctx, req) {
		if shard.Err != nil {
			r.cfg.Logger.Debug("sizes of logs are unknown: " + shard.Err.Error())
			continue
		}
		r.mu.Lock()
		for _, dir := range shard.Resp.(*kmsg.DescribeLogDirsResponse).Dirs {
			r.takeSizes(&dir)
		}
		r.mu.Unlock()
	}
}

// takeSizes records the largest replica of each partition; mu is held.
func (r *round) takeSizes(dir *kmsg.DescribeLogDirsResponseDir) {
	if dir.ErrorCode != 0 {
		return
	}
	for i := range dir.Topics {
		out := r.topicAt[dir.Topics[i].Topic]
		if out == nil {
			continue
		}
		for _, p := range dir.Topics[i].Partitions {
			if !p.IsFuture && p.Size > offsetOf(out.Bytes, int(p.Partition)) {
				out.Bytes = put(out.Bytes, p.Partition, p.Size)
			}
		}
	}
}

// size is how fast a log grows, in bytes.
type size struct {
	bytes int64
	at    time.Time
	rate  float64 // bytes per second
}

// observe takes a size. Retention that deletes a segment says nothing of what
// came in: the rate stays as it was.
func (s *size) observe(at time.Time, bytes int64) {
	if !s.at.IsZero() && bytes >= s.bytes {
		s.rate = perSecond(float64(bytes-s.bytes), at.Sub(s.at))
	}
	s.bytes, s.at = bytes, at
}
