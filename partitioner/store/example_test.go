package store_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

func writeExample(content string) (path string, remove func()) {
	dir, err := os.MkdirTemp("", "store")
	if err != nil {
		log.Fatal(err)
	}
	path = filepath.Join(dir, "routing.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		log.Fatal(err)
	}
	return path, func() { _ = os.RemoveAll(dir) }
}

func ExampleOpenFile() {
	path, remove := writeExample("version: 1\nrevision: 1\ntopics:\n  orders: {partitions: 8}\n")
	defer remove()

	src, err := store.OpenFile(context.Background(), path, store.FileConfig{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = src.Close() }()
	fmt.Println("revision", src.Table().Revision(), src.Table().TopicNames())
	// Output: revision 1 [orders]
}

func ExampleFile_Write() {
	path, remove := writeExample("version: 1\nrevision: 1\ntopics:\n  orders: {partitions: 8}\n")
	defer remove()
	ctx := context.Background()

	src, err := store.OpenFile(ctx, path, store.FileConfig{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = src.Close() }()

	changed := src.Changed()
	next, err := src.Table().Edit(routing.SetPlacement("orders", "acme-corp", routing.Placement{Partitions: []int32{0}}))
	if err != nil {
		log.Fatal(err)
	}
	if err := src.Write(ctx, next); err != nil {
		log.Fatal(err)
	}
	<-changed
	fmt.Println("revision", src.Table().Revision())
	fmt.Println("again:", src.Write(ctx, next) != nil)
	// Output:
	// revision 2
	// again: true
}

func ExampleFixed() {
	table, err := routing.NewTable(routing.Spec{
		Revision: 1,
		Topics:   map[string]routing.TopicSpec{"orders": {Partitions: 8}},
	})
	if err != nil {
		log.Fatal(err)
	}
	src := store.Fixed(table)
	fmt.Println(src.Table().TopicNames())
	// Output: [orders]
}
