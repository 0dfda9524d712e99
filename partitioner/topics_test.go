package partitioner

import (
	"context"
	"errors"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/tenantlane/tenantlane/partitioner/routing"
)

func TestCheckTopicsNamesEachTopic(t *testing.T) {
	c := cluster(t, 4)
	client := clientOf(t, c)
	table := tableWith(t, map[string]routing.TopicSpec{"orders": {Partitions: 8}, "absent": {Partitions: 1}})
	err := CheckTopics(patient(t), client, table)
	if !errors.Is(err, ErrOutOfRange) || !strings.Contains(err.Error(), "orders has 4 partitions") || !strings.Contains(err.Error(), "absent") {
		t.Errorf("error is %v", err)
	}
	if err := CheckTopics(patient(t), client, tableOf(t, routing.TopicSpec{Partitions: 3})); err != nil {
		t.Errorf("a topic with more partitions than the table: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := CheckTopics(ctx, client, table); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
}

func TestATableThatDoesNotFitIsLogged(t *testing.T) {
	c := cluster(t, 4)
	core, logs := observer.New(zap.ErrorLevel)
	src := swapping(tableOf(t, routing.TopicSpec{Partitions: 4}))
	producing(t, c, src, ProducerConfig{Logger: zap.New(core)})
	next, err := src.Table().Edit(routing.Grow("orders", 5))
	if err != nil {
		t.Fatal(err)
	}
	src.set(next)
	eventually(t, "a log line", func() bool {
		return logs.FilterMessage("topics do not fit the routing table").FilterField(zap.Uint64("revision", 2)).Len() > 0
	})
}
