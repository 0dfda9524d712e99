package lagwatch

import (
	"slices"
	"sync"
	"time"

	"github.com/tenantlane/tenantlane/lagwatch/lag"
)

// heat is how a partition was in one column of the heat map.
type heat uint8

// The heats, worst last; within a column the worst counts, and not to have
// been seen is worse than to be well.
const (
	heatNone heat = iota // no round
	heatWell
	heatUnknown
	heatLate
	heatBad
)

var heatNames = [...]string{"none", "well", "unknown", "late", "bad"}

// String is the heat's name in style sheets and legends.
func (h heat) String() string { return heatNames[h] }

func heatOf(p *PartitionEvaluation) heat {
	switch {
	case !p.Known:
		return heatUnknown
	case p.Firing:
		return heatBad
	}
	switch p.Class {
	case lag.OK, lag.Idle, lag.NoCommit, lag.Unknown:
		return heatWell
	case lag.Hot, lag.Recovering, lag.Behind, lag.Slow:
		return heatLate
	case lag.TxnHanging, lag.Stuck, lag.Gone, lag.Rewind, lag.Reset, lag.LossRisk, lag.Lost:
	}
	return heatBad
}

const (
	heatColumns = 60
	heatColumn  = time.Minute
)

// poolID names a pool of a group and topic.
type poolID struct{ group, topic, pool string }

// heatMap is the last hour of every partition, a byte per minute.
type heatMap struct {
	mu sync.Mutex
	// guards all below
	columns [heatColumns]time.Time // when each begins; zero: not used
	next    int
	pools   map[poolID]map[int32]*[heatColumns]heat
}

func newHeatMap() *heatMap { return &heatMap{pools: map[poolID]map[int32]*[heatColumns]heat{}} }

// add takes an evaluation into the newest column, or begins the next one.
// Pools that are gone are forgotten.
func (m *heatMap) add(e *Evaluation, width time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := m.column(e.At, width)
	seen := map[poolID]bool{}
	for i := range e.Groups {
		g := &e.Groups[i]
		id := poolID{g.Group, g.Topic, g.Pool}
		seen[id] = true
		rows := m.pools[id]
		if rows == nil {
			rows = map[int32]*[heatColumns]heat{}
			m.pools[id] = rows
		}
		for j := range g.Partitions {
			p := &g.Partitions[j]
			row := rows[p.Partition]
			if row == nil {
				row = &[heatColumns]heat{}
				rows[p.Partition] = row
			}
			row[at] = max(row[at], heatOf(p))
		}
	}
	for id := range m.pools {
		if !seen[id] {
			delete(m.pools, id)
		}
	}
}

// column is the index of the column that a time belongs to, cleared if it
// begins now; mu is held.
func (m *heatMap) column(now time.Time, width time.Duration) int {
	newest := (m.next + heatColumns - 1) % heatColumns
	if begin := m.columns[newest]; !begin.IsZero() && now.Sub(begin) < width {
		return newest
	}
	at := m.next
	m.columns[at] = now
	m.next = (m.next + 1) % heatColumns
	for _, rows := range m.pools {
		for _, row := range rows {
			row[at] = heatNone
		}
	}
	return at
}

// heatRow is one partition's past, oldest first.
type heatRow struct {
	Partition int32
	Heats     []heat
}

// rows returns the past of some partitions of a pool, and when it begins.
func (m *heatMap) rows(id poolID, partitions []int32) (rows []heatRow, since time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var order []int
	for i := range heatColumns {
		at := (m.next + i) % heatColumns
		if begin := m.columns[at]; !begin.IsZero() {
			order = append(order, at)
			if since.IsZero() {
				since = begin
			}
		}
	}
	for _, p := range partitions {
		row := heatRow{Partition: p, Heats: make([]heat, len(order))}
		if past := m.pools[id][p]; past != nil {
			for i, at := range order {
				row.Heats[i] = past[at]
			}
		}
		rows = append(rows, row)
	}
	return rows, since
}

// run is equal heats side by side, drawn as one rectangle.
type run struct {
	X, Width int
	Heat     heat
}

// runs joins equal neighbors; what was well, or not there, is the background.
func (r heatRow) runs() (out []run) {
	for x := 0; x < len(r.Heats); {
		end := x + 1
		for end < len(r.Heats) && r.Heats[end] == r.Heats[x] {
			end++
		}
		if r.Heats[x] != heatWell {
			out = append(out, run{x, end - x, r.Heats[x]})
		}
		x = end
	}
	return out
}

// worstHeat is the worst of a row.
func (r heatRow) worstHeat() heat {
	if len(r.Heats) == 0 {
		return heatNone
	}
	return slices.Max(r.Heats)
}
