package lagwatch

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/tenantlane/tenantlane/lagwatch/lag"
	"github.com/tenantlane/tenantlane/lagwatch/mute"
	"github.com/tenantlane/tenantlane/lagwatch/notify"
)

// savedState is the state file: what there is, what fires, who was told, and
// as much of the past as the rule looks back.
type savedState struct {
	Version int                    `json:"version"`
	SavedAt time.Time              `json:"saved_at"`
	Groups  map[string]*groupEntry `json:"groups"`
	Topics  map[string]*topicEntry `json:"topics"`
	Logs    map[string]*savedLogs  `json:"logs"`
	Pairs   []savedPair            `json:"pairs"`
	Named   map[string]savedName   `json:"named,omitempty"`
	Told    notify.State           `json:"told"`

	Sweep savedSweep `json:"sweep,omitzero"`

	Silences []mute.Silence `json:"silences,omitempty"`
	Markers  []Marker       `json:"markers,omitempty"`
}

const stateVersion = 1

type savedLogs struct {
	ID   string               `json:"id,omitempty"`
	Logs map[int]lag.LogState `json:"logs"` // of partitions in which something may wait
}

type savedPair struct {
	Group   string           `json:"group"`
	Topic   string           `json:"topic"`
	Tracker lag.TrackerState `json:"tracker"`
}

// savedName is an attribution; tenants need not be text.
type savedName struct {
	Tenant     []byte    `json:"tenant"`
	Share      float64   `json:"share"`
	AtLeast    float64   `json:"at_least"`
	N          int       `json:"n"`
	At         time.Time `json:"at"`
	Partitions []int32   `json:"partitions"`
}

// stateEvery is how often the past is saved when nothing else changed.
const stateEvery = time.Minute

// stateFresh is how old a state may be for `once` to use its past.
const stateFresh = 10 * time.Minute

// loadState reads a state file; a missing one is no state.
func loadState(path string) (*savedState, error) {
	if path == "" {
		return nil, nil
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("state file: %w", err)
	}
	s, err := decodeState(data)
	if err != nil {
		return nil, fmt.Errorf("state file %s: %w", path, err)
	}
	return s, nil
}

// decodeState reads what encodeState wrote.
func decodeState(data []byte) (*savedState, error) {
	var s savedState
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, err
	}
	if s.Version != stateVersion {
		return nil, fmt.Errorf("version %d, want %d", s.Version, stateVersion)
	}
	for name, g := range s.Groups {
		if g == nil {
			delete(s.Groups, name)
		}
	}
	for name, t := range s.Topics {
		if t == nil || t.Partitions < 0 || t.Partitions > maxPartitions {
			delete(s.Topics, name)
		}
	}
	return &s, nil
}

// maxPartitions bounds what a damaged file can make the watcher expect.
const maxPartitions = 1 << 20

// saveState replaces the file whole: written beside, synced, renamed. A crash
// leaves the old or the new one.
func saveState(path string, s *savedState) error {
	data, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("state: %w", err)
	}
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("state file: %w", err)
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // best effort, the error that counts is err
		return fmt.Errorf("state file: %w", err)
	}
	return syncDir(dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	return nil
}

// state collects what is to be saved.
func (w *Watcher) state(now time.Time) *savedState {
	s := &savedState{
		Version: stateVersion, SavedAt: now, Groups: w.inv.groups, Topics: w.inv.topics,
		Logs: map[string]*savedLogs{}, Named: w.engine.savedNames(), Told: w.notifier.State(),
	}
	s.Silences, s.Markers = w.journal.list(now)
	s.Sweep = w.engine.savedSweep()
	e := w.engine
	for _, key := range e.order {
		p := e.pairs[key]
		s.Pairs = append(s.Pairs, savedPair{key.group, key.topic, p.tracker.State()})
		for i := range p.samples {
			if !p.samples[i].Known || p.samples[i].Committed < p.samples[i].End {
				s.keepLog(e, key.topic, int(p.samples[i].Partition))
			}
		}
	}
	return s
}

func (e *engine) savedNames() map[string]savedName {
	out := map[string]savedName{}
	for id, a := range e.named {
		out[id] = savedName{[]byte(a.tenant), a.share, a.atLeast, a.n, a.at, a.partitions}
	}
	return out
}

func (e *engine) useNames(named map[string]savedName) {
	for id, a := range named {
		e.named[id] = attribution{tenant: string(a.Tenant), share: a.Share, atLeast: a.AtLeast, n: a.N, at: a.At, partitions: a.Partitions}
	}
}

func (s *savedState) keepLog(e *engine, topic string, partition int) {
	l := e.logs[topic]
	if l == nil || partition >= len(l.logs) {
		return
	}
	kept := s.Logs[topic]
	if kept == nil {
		kept = &savedLogs{ID: hexID(l.id), Logs: map[int]lag.LogState{}}
		s.Logs[topic] = kept
	}
	if _, ok := kept.Logs[partition]; !ok {
		kept.Logs[partition] = l.logs[partition].State()
	}
}

// restore makes the watcher go on where the saved one was.
func (w *Watcher) restore(s *savedState) {
	for name, g := range s.Groups {
		if !w.cfg.watchesGroup(name) {
			continue
		}
		for topic, pair := range g.Topics {
			if pair != nil && w.cfg.watchesTopic(topic) {
				*w.inv.pair(name, topic) = *pair
			}
		}
		w.inv.group(name).Type, w.inv.group(name).AbsentSince = g.Type, g.AbsentSince
	}
	for name, t := range s.Topics {
		if _, ok := w.inv.topics[name]; ok {
			w.inv.topics[name] = &topicEntry{Partitions: t.Partitions, AbsentSince: t.AbsentSince}
		}
	}
	for topic, l := range s.Logs {
		if l != nil && w.inv.topics[topic] != nil {
			w.engine.restoreLogs(topic, l)
		}
	}
	w.engine.useTable()
	for i := range s.Pairs {
		p := &s.Pairs[i]
		if g := w.inv.groups[p.Group]; g != nil && (p.Topic == "" || g.Topics[p.Topic] != nil) {
			key := pairKey{p.Group, p.Topic}
			w.engine.addPair(key)
			w.engine.pairs[key].tracker.Restore(p.Tracker)
		}
	}
	w.engine.useNames(s.Named)
	w.journal.restore(s.Silences, s.Markers)
	w.engine.restoreSweep(&s.Sweep)
}

func (e *engine) restoreLogs(topic string, s *savedLogs) {
	l := &topicLogs{id: topicID(s.ID)}
	for p, log := range s.Logs {
		if p < 0 || p >= maxPartitions {
			continue
		}
		for len(l.logs) <= p {
			l.logs = append(l.logs, lag.Log{})
		}
		l.logs[p].Restore(log)
	}
	e.logs[topic] = l
}

// save writes the state file when something changed that must not be lost, or
// the last one is a minute old. A disk that is full does not stop the watch:
// it is said, and tried again.
func (w *Watcher) save(now time.Time, force bool) {
	due := force || w.stateError != nil || now.Sub(w.savedAt) >= stateEvery
	if w.cfg.StateFile == "" || !due {
		return
	}
	err := saveState(w.cfg.StateFile, w.state(now))
	w.metrics.saved(err)
	w.stateError = err
	w.savedAt = now
	if err == nil {
		return
	}
	w.log.Error("the state is not saved; a restart may page again", zap.Error(err))
}
