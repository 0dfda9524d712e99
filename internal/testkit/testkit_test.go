package testkit_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/tenantlane/tenantlane/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestBrokerAndClient(t *testing.T) {
	b := testkit.Broker(t, kfake.SeedTopics(1, "orders"))
	client := testkit.Client(t, b, kgo.DefaultProduceTopic("orders"))
	if err := client.ProduceSync(t.Context(), kgo.StringRecord("x")).FirstErr(); err != nil {
		t.Error(err)
	}
}

func TestPollWaitsForTheCondition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if !testkit.Poll(ctx, func() bool { return time.Since(began) >= time.Second }) || time.Since(began) > 2*time.Second {
			t.Errorf("ended after %v, want about a second", time.Since(began))
		}
		if testkit.Poll(ctx, func() bool { return false }) || time.Since(began) != time.Minute {
			t.Errorf("ended after %v, want the context's minute", time.Since(began))
		}
	})
}
