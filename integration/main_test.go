package integration

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/tenantlane/tenantlane/integration/kafka"
)

// suite is what TestMain found and the tests share.
var suite struct {
	kafka   []string       // addresses of the real broker; none if there is none
	why     string         // why there is none
	cluster *kafka.Cluster // if we started it
	binary  binary         // the command, built when the first test needs it
}

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(runSuite(m))
}

func runSuite(m *testing.M) int {
	if err := findKafka(); err != nil {
		fmt.Fprintln(os.Stderr, "integration:", err)
		return 1
	}
	code := m.Run()
	if suite.cluster != nil {
		if code != 0 {
			suite.cluster.KeepLogs()
		}
		if err := suite.cluster.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "integration:", err)
			code = 1
		}
	}
	if err := suite.binary.remove(); err != nil {
		fmt.Fprintln(os.Stderr, "integration:", err)
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, "integration: goroutines are left:", err)
			return 1
		}
	}
	return code
}

// findKafka finds or starts the real broker and says which.
func findKafka() error {
	say := func(format string, args ...any) { fmt.Fprintf(os.Stdout, "integration: "+format+"\n", args...) }
	required := os.Getenv("TENANTLANE_REQUIRE_KAFKA") == "1"
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	switch brokers := os.Getenv("KAFKA_BROKERS"); {
	case testing.Short() && !required:
		suite.why = "-short"
	case brokers != "":
		suite.kafka = strings.Split(brokers, ",")
		if err := ping(ctx, suite.kafka); err != nil {
			return fmt.Errorf("KAFKA_BROKERS=%s: %w", brokers, err)
		}
		say("real broker: KAFKA_BROKERS=%s", brokers)
	default:
		var err error
		suite.cluster, err = kafka.Start(ctx, kafka.Config{Logf: say})
		switch {
		case errors.Is(err, kafka.ErrNoTools) && !required:
			suite.why = err.Error()
		case errors.Is(err, kafka.ErrNoTools):
			return fmt.Errorf("TENANTLANE_REQUIRE_KAFKA=1, KAFKA_BROKERS is not set, and %w", err)
		case err != nil:
			return err
		default:
			suite.kafka = suite.cluster.Addrs()
			say("real broker: Apache Kafka %s, started by this suite", kafka.Version)
		}
	}
	if suite.why != "" {
		say("NO REAL BROKER: %s; every test runs on the embedded broker only", suite.why)
	}
	return nil
}

func ping(ctx context.Context, addrs []string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(addrs...), kgo.RetryTimeout(10*time.Second))
	if err != nil {
		return err
	}
	defer client.Close()
	return client.Ping(ctx)
}
