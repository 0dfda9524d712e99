package kafka

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Settings returns what every broker of a cluster of that many nodes is told,
// apart from its name and its addresses: small internal topics, groups that
// start at once, no topic by accident, and with three nodes the loss of one is
// survived.
func Settings(nodes int) map[string]string {
	replicas, minISR := "1", "1"
	if nodes >= 3 {
		replicas, minISR = "3", "2"
	}
	return map[string]string{
		"auto.create.topics.enable":                        "false",
		"default.replication.factor":                       replicas,
		"min.insync.replicas":                              minISR,
		"offsets.topic.num.partitions":                     "8",
		"offsets.topic.replication.factor":                 replicas,
		"transaction.state.log.num.partitions":             "8",
		"transaction.state.log.replication.factor":         replicas,
		"transaction.state.log.min.isr":                    minISR,
		"share.coordinator.state.topic.num.partitions":     "4",
		"share.coordinator.state.topic.replication.factor": replicas,
		"share.coordinator.state.topic.min.isr":            minISR,
		"group.initial.rebalance.delay.ms":                 "0",
		"log.cleaner.backoff.ms":                           "1000",
	}
}

// address is where one node listens.
type address struct{ client, controller string }

// properties returns the whole configuration of node id (from 1) of the
// cluster that listens on addrs, with its data below dir.
func properties(id int, addrs []address, dir string, extra map[string]string) map[string]string {
	voters := make([]string, len(addrs))
	for i, a := range addrs {
		voters[i] = fmt.Sprintf("%d@%s", i+1, a.controller)
	}
	self := addrs[id-1]
	props := Settings(len(addrs))
	maps.Copy(props, map[string]string{
		"process.roles":                  "broker,controller",
		"node.id":                        strconv.Itoa(id),
		"controller.quorum.voters":       strings.Join(voters, ","),
		"listeners":                      "PLAINTEXT://" + self.client + ",CONTROLLER://" + self.controller,
		"advertised.listeners":           "PLAINTEXT://" + self.client,
		"controller.listener.names":      "CONTROLLER",
		"inter.broker.listener.name":     "PLAINTEXT",
		"listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
		"log.dirs":                       dir,
	})
	maps.Copy(props, extra)
	return props
}

// encode writes properties in Java's format, sorted.
func encode(props map[string]string) string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(props)) {
		value := strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`).Replace(props[key])
		fmt.Fprintf(&b, "%s=%s\n", key, value)
	}
	return b.String()
}
