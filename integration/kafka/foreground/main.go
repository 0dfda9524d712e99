// Command foreground starts a real Apache Kafka for development and keeps it
// until it is interrupted. It prints the line that makes the other tools of
// this project use it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/tenantlane/tenantlane/integration/kafka"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("foreground", flag.ExitOnError)
	nodes := flags.Int("nodes", 1, "number of brokers, 1 or 3")
	port := flags.Int("port", 0, "port of the first broker; 0 means free ones")
	dir := flags.String("dir", "", "folder that keeps the brokers' data; by default it is removed at the end")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	cluster, err := kafka.Start(ctx, kafka.Config{
		Nodes: *nodes, Port: *port, Dir: *dir,
		Logf: func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) },
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stdout, "export KAFKA_BROKERS=%s\n", strings.Join(cluster.Addrs(), ","))
	fmt.Fprintln(os.Stderr, "Ctrl-C stops it.")
	<-ctx.Done()
	return cluster.Stop()
}
