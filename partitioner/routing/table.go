package routing

import (
	"maps"
	"slices"
)

// Table is a compiled routing table. It never changes.
type Table struct {
	revision uint64
	topics   map[string]*Topic
	names    []string // sorted
}

// NewTable checks and compiles a table. It keeps nothing of s. The error is an
// *Error without file and line, the first in the order of topics and tenants.
func NewTable(s Spec) (*Table, error) {
	topics := make(map[string]*Topic, len(s.Topics))
	for _, name := range slices.Sorted(maps.Keys(s.Topics)) {
		topic, err := compile(partsOf(name, s.Topics[name]))
		if err != nil {
			return nil, err
		}
		topics[name] = topic
	}
	return assemble(s.Revision, topics)
}

// assemble makes a table of compiled topics and checks what spans topics.
func assemble(revision uint64, topics map[string]*Topic) (*Table, error) {
	t := &Table{revision: revision, topics: topics, names: slices.Sorted(maps.Keys(topics))}
	for _, name := range t.names {
		if err := t.checkRedirects(topics[name]); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// Revision of the table: every change adds one.
func (t *Table) Revision() uint64 { return t.revision }

// TopicNames lists the topics, sorted. The slice is the caller's.
func (t *Table) TopicNames() []string { return slices.Clone(t.names) }

// Topic gives the compiled view of one topic.
func (t *Table) Topic(name string) (*Topic, bool) {
	topic, ok := t.topics[name]
	return topic, ok
}

// Spec gives the table as plain data, a deep copy with all defaults filled in.
func (t *Table) Spec() Spec {
	s := Spec{Revision: t.revision, Topics: make(map[string]TopicSpec, len(t.topics))}
	for name, topic := range t.topics {
		s.Topics[name] = topic.spec()
	}
	return s
}

// Route looks a tenant up and follows a placement into another topic of this
// table, which no second placement can leave. The name is the topic's that
// decided; it is not in the table when the placement names one outside it, and
// then the route still has its Topic set. ok is false when the table has no
// entry for topic.
func (t *Table) Route(topic string, tenant, key []byte) (r Route, name string, ok bool) {
	from, ok := t.topics[topic]
	if !ok {
		return Route{}, topic, false
	}
	r = from.Lookup(tenant, key)
	if r.Topic == "" {
		return r, topic, true
	}
	to, ok := t.topics[r.Topic]
	if !ok {
		return r, r.Topic, true
	}
	return to.Lookup(tenant, key), r.Topic, true
}
