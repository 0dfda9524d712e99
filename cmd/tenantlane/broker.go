package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tenantlane/tenantlane/internal/embedded"
)

// defaultListen is Kafka's own port, on this machine only.
const defaultListen = "127.0.0.1:9092"

func newBrokerCommand(e *env) *cobra.Command {
	var output outputFlags
	var logs logFlags
	cfg := embedded.Config{}
	cmd := &cobra.Command{
		Use:   "broker",
		Short: "Run the embedded broker as a process, for development",
		Long: "Runs an in-process Kafka broker until it is stopped. It is for development and tests: one\n" +
			"process, no replication, and in memory unless --data-dir is given.",
		Example: "  tenantlane broker\n" +
			"  tenantlane broker --listen 127.0.0.1:0 --data-dir ./kafka-data",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.Logger = logs.logger(e)
			return e.runBroker(cmd.Context(), cfg, output.json())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&cfg.Listen, "listen", defaultListen, "address to listen on; port 0 takes a free one")
	flags.StringVar(&cfg.DataDir, "data-dir", "", "folder that keeps topics and commits between runs (default: in memory)")
	flags.IntVar(&cfg.Partitions, "partitions", embedded.DefaultPartitions, "partitions of topics that are created without a number")
	flags.BoolVar(&cfg.AutoCreate, "auto-create", false, "create a topic when a client asks for one that does not exist")
	output.register(flags)
	logs.register(flags, "warn")
	service(cmd)
	return cmd
}

// runBroker runs until ctx ends. Its one line on stdout says how to use it.
func (e *env) runBroker(ctx context.Context, cfg embedded.Config, asJSON bool) error {
	broker, err := embedded.Start(cfg)
	if err != nil {
		return usagef("%w", err)
	}
	addrs := strings.Join(broker.Addrs(), ",")
	if asJSON {
		err = e.printJSON(map[string]any{"brokers": broker.Addrs(), "pid": os.Getpid()})
	} else {
		err = e.printf("broker ready, stop it with Ctrl-C; in another terminal: export KAFKA_BROKERS=%s\n", addrs)
	}
	if err == nil {
		<-ctx.Done()
	}
	if closeErr := broker.Close(); closeErr != nil {
		return fmt.Errorf("closing the broker: %w", closeErr)
	}
	return err
}
