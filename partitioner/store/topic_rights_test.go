package store

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/tenantlane/tenantlane/internal/embedded"
	"github.com/tenantlane/tenantlane/partitioner/routing"
)

const method = "SCRAM-SHA-256"

// rights on one topic, or on the transactional id that has its name.
func rights(kind kmsg.ACLResourceType, name string, operations ...kmsg.ACLOperation) (acls []kfake.ACL) {
	for _, op := range operations {
		acls = append(acls, kfake.ACL{Resource: kind, Name: name, Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: op, Allow: true})
	}
	return acls
}

// TestLeastRights holds docs/routing-topic.md to its word.
func TestLeastRights(t *testing.T) {
	const (
		topic, id   = kmsg.ACLResourceTypeTopic, kmsg.ACLResourceTypeTransactionalId
		read, write = kmsg.ACLOperationRead, kmsg.ACLOperationWrite
		see, config = kmsg.ACLOperationDescribe, kmsg.ACLOperationDescribeConfigs
		table, life = "tenantlane.routing", "tenantlane.sessions"
		history     = "tenantlane.history"
	)
	reader := rights(topic, table, read, see)
	session := append(rights(topic, table, read, see, write), rights(topic, life, write, see)...)
	writer := append(rights(topic, table, read, write, see, config), rights(topic, life, read, see)...)
	writer = append(append(writer, rights(topic, history, read, write, see, config)...), rights(id, table, write, see)...)
	writer = append(writer, rights(topic, "orders", see)...)
	b, err := embedded.Start(embedded.Config{Options: []kfake.Opt{
		kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser(method, "admin", "admin"),
		kfake.User(method, "reader", "reader", reader...),
		kfake.User(method, "session", "session", session...),
		kfake.User(method, "writer", "writer", writer...),
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err = b.Close(); err != nil {
			t.Error(err)
		}
	})
	as := func(user string) TopicConfig {
		login := scram.Auth{User: user, Pass: user}.AsSha256Mechanism()
		return TopicConfig{KafkaOpts: []kgo.Opt{kgo.SeedBrokers(b.Addrs()...), kgo.SASL(login)}, Empty: true, Heartbeat: 50 * time.Millisecond}
	}
	admin := as("admin")
	admin.Create = true
	openTopic(t, admin)

	change := openTopic(t, as("writer"))
	update(t, change, orders())
	if _, err = change.History(patient(t)); err != nil {
		t.Errorf("the writer cannot read the history: %v", err)
	}
	if _, err = change.AwaitSessions(patient(t), 1); err != nil {
		t.Errorf("the writer cannot wait for sessions: %v", err)
	}

	route := openTopic(t, as("reader"))
	if route.Table().Revision() != 1 {
		t.Errorf("the reader has revision %d", route.Table().Revision())
	}
	if _, err = route.Update(patient(t), me, editing(routing.Grow("orders", 9))); !errors.Is(err, kerr.TopicAuthorizationFailed) {
		t.Errorf("the reader's change: error is %v, want a lack of rights", err)
	}
	if _, err = route.Register(patient(t), SessionConfig{}); !errors.Is(err, kerr.TopicAuthorizationFailed) {
		t.Errorf("the reader's session: error is %v, want a lack of rights", err)
	}

	s, err := openTopic(t, as("session")).Register(patient(t), SessionConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(patient(t)); err != nil {
		t.Error(err)
	}
}
