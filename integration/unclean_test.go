package integration

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tenantlane/tenantlane/consumer/offset"
	"github.com/tenantlane/tenantlane/integration/kafka"
)

// A leader that nobody followed is lost, and one that was out of sync is elected:
// the log ends below the commit's frontier and goes on with other records, up
// beyond it. All of them are handled: the frontier was of another log.
func TestAnUncleanElectionCostsRepeatsAndSkipsNoNewRecord(t *testing.T) {
	cluster, b := startClusterWith(t, kafka.Config{Nodes: 3, Logf: t.Logf, Properties: map[string]string{
		"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500", // a dead node is soon out of sync
	}})
	m := newMark(t, b, "")
	m.topic = m.uncleanTopic(1, 2)
	m.client = b.client(t, m.produceOpts()...)
	const kept, cut = 10, 30
	m.send("bad")
	m.sendOthers(kept) // acknowledged by both
	must(t, cluster.Kill(2))
	m.sendOthers(cut) // acknowledged by node 1, once node 2 counts as out of sync
	w := m.work(nil)
	m.awaitHandled(kept + cut)
	await(m.ctx, t, "a commit of all but the parked lane", func() bool {
		said, why := offset.Decode(m.commit().Metadata)
		return why == offset.Valid && said.Frontier > kept+cut && len(said.Lanes) == 1
	})
	w.stop()
	must(t, cluster.Kill(1))
	must(t, cluster.Restart(m.ctx, 2))
	m.elect(2)
	m.sendOthers(2 * cut) // on node 2, where the log ended below them
	m.forget()
	again := m.work(nil)
	m.awaitHandled(kept + 2*cut)
	if n := again.counted(t, "ignored_metadata_total", offset.Truncated.String()); n != 1 {
		t.Errorf("ignored %v times for a truncated log, want once", n)
	}
	again.stop()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// uncleanTopic makes a topic of one partition with these replicas, of which any
// may lead.
func (m *mark) uncleanTopic(replicas ...int32) string {
	m.t.Helper()
	name, yes, one := unique(m.t, "topic"), "true", "1"
	req := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, -1, -1
	topic.ReplicaAssignment = []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Partition: 0, Replicas: replicas}}
	topic.Configs = []kmsg.CreateTopicsRequestTopicConfig{
		{Name: "unclean.leader.election.enable", Value: &yes}, {Name: "min.insync.replicas", Value: &one},
	}
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(m.ctx, m.client)
	must(m.t, err)
	must(m.t, kerr.ErrorForCode(resp.Topics[0].ErrorCode))
	await(m.ctx, m.t, "every broker knows the topic", func() bool { return known(m.ctx, m.client, name) })
	return name
}

// elect makes a node lead the partition although it is not in sync.
func (m *mark) elect(node int32) {
	m.t.Helper()
	await(m.ctx, m.t, "the node leads", func() bool {
		set := kadm.TopicsSet{}
		set.Add(m.topic, 0)
		results, err := m.admin.ElectLeaders(m.ctx, kadm.ElectLiveReplica, set)
		if err == nil {
			err = results[m.topic][0].Err
		}
		if err != nil && !errors.Is(err, kerr.ElectionNotNeeded) {
			return false
		}
		known, err := m.admin.Metadata(m.ctx, m.topic)
		return err == nil && known.Topics[m.topic].Partitions[0].Leader == node
	})
}
