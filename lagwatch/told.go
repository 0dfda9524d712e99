package lagwatch

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/lagwatch/notify"
)

// The replica that sends keeps, as metadata of its group's commit, what it has
// told, so that the next one repeats nothing: a prefix, then in base64 the time
// of writing in unix milliseconds (8 bytes) and an entry for each open alert of
// each target (7 bytes: 6 of a hash of target and key, 1 of the severity).
// Only the member that holds the partition can commit, so nobody else writes it.
const (
	toldPrefix  = "tl-told-1:"
	toldPartial = "tl-told-1~" // more were open than fit
	toldHash    = 6
	toldEntry   = toldHash + 1
	toldMost    = 400 // entries, in 4096 bytes of metadata
	toldTime    = 2 * time.Second
)

// toldSeverities are numbered by their place.
func toldSeverities() []string { return []string{"ticket", "page", "critical"} }

func toldID(target, key string) string {
	h := sha256.Sum256([]byte(target + "\x00" + key))
	return string(h[:toldHash])
}

// encodeTold writes what targets hold open.
func encodeTold(at time.Time, state notify.State) string {
	body := binary.BigEndian.AppendUint64(nil, uint64(at.UnixMilli()))
	prefix, n := toldPrefix, 0
	for target, entries := range state {
		for key, e := range entries {
			if n == toldMost {
				prefix = toldPartial
				break
			}
			n++
			severity := max(slices.Index(toldSeverities(), e.Alert.Severity), 0)
			body = append(append(body, toldID(target, key)...), byte(severity))
		}
	}
	return prefix + base64.StdEncoding.EncodeToString(body)
}

// decodeTold reads it; nil when it is nothing of ours.
func decodeTold(text string, interval time.Duration) notify.Known {
	encoded, whole := strings.CutPrefix(text, toldPrefix)
	if !whole {
		var partial bool
		if encoded, partial = strings.CutPrefix(text, toldPartial); !partial {
			return nil
		}
	}
	body, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(body) < 8 || (len(body)-8)%toldEntry != 0 {
		return nil
	}
	written := time.UnixMilli(int64(binary.BigEndian.Uint64(body)))
	open := map[string]string{}
	for body = body[8:]; len(body) > 0; body = body[toldEntry:] {
		if s := int(body[toldHash]); s < len(toldSeverities()) {
			open[string(body[:toldHash])] = toldSeverities()[s]
		}
	}
	return func(target, key string, since time.Time, ended bool) (severity string, sure bool) {
		severity = open[toldID(target, key)]
		if ended { // only what was written after it tells whether the end was delivered
			return severity, whole && !written.Before(since)
		}
		// The other replica saw it begin up to a round or two apart from this one.
		return severity, (severity != "" || whole) && !written.Before(since.Add(-2*interval))
	}
}

// shareTold commits what was told. When that fails the next sender repeats what
// is in doubt.
func (w *Watcher) shareTold(ctx context.Context, client *kgo.Client) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), toldTime)
	defer cancel()
	text := encodeTold(time.Now(), w.notifier.State())
	ctx = kgo.PreCommitFnContext(ctx, func(req *kmsg.OffsetCommitRequest) error {
		for i := range req.Topics {
			for j := range req.Topics[i].Partitions {
				req.Topics[i].Partitions[j].Metadata = &text
			}
		}
		return nil
	})
	at := map[string]map[int32]kgo.EpochOffset{w.cfg.Election.Topic: {0: {Epoch: -1, Offset: 0}}}
	client.CommitOffsetsSync(ctx, at, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, _ *kmsg.OffsetCommitResponse, err error) {
		if err != nil {
			w.log.Warn("cannot tell the other replicas what was told; one that takes over may repeat it", zap.Error(err))
		}
	})
}

// toldBefore reads what the sender before has told; nil when that cannot be
// known.
func (w *Watcher) toldBefore(ctx context.Context, client *kgo.Client) notify.Known {
	ctx, cancel := context.WithTimeout(ctx, toldTime)
	defer cancel()
	commits, err := kadm.NewClient(client).FetchOffsets(ctx, w.cfg.Election.Group)
	if err != nil {
		w.log.Warn("cannot see what the sender before has told; some of it may be repeated", zap.Error(err))
		return nil
	}
	commit, ok := commits.Lookup(w.cfg.Election.Topic, 0)
	if !ok {
		return nil
	}
	return decodeTold(commit.Metadata, w.cfg.Rule.Interval)
}
