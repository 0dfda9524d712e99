package kafka

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPropertiesOfThreeNodes(t *testing.T) {
	addrs := []address{{"127.0.0.1:1", "127.0.0.1:2"}, {"127.0.0.1:3", "127.0.0.1:4"}, {"127.0.0.1:5", "127.0.0.1:6"}}
	props := properties(2, addrs, "/data", map[string]string{"log.retention.ms": "1", "min.insync.replicas": "1"})
	for key, want := range map[string]string{
		"node.id":                          "2",
		"controller.quorum.voters":         "1@127.0.0.1:2,2@127.0.0.1:4,3@127.0.0.1:6",
		"listeners":                        "PLAINTEXT://127.0.0.1:3,CONTROLLER://127.0.0.1:4",
		"offsets.topic.replication.factor": "3",
		"log.dirs":                         "/data",
		"log.retention.ms":                 "1",
		"min.insync.replicas":              "1",
	} {
		if props[key] != want {
			t.Errorf("%s = %q, want %q", key, props[key], want)
		}
	}
}

func TestEncodeIsSortedAndEscaped(t *testing.T) {
	got := encode(map[string]string{"b": "two\nlines", "a": `back\slash`})
	if want := "a=back\\\\slash\nb=two\\nlines\n"; got != want {
		t.Errorf("encode = %q, want %q", got, want)
	}
}

func TestConfigErrorsNameTheField(t *testing.T) {
	for _, tc := range []struct {
		cfg  Config
		want string
	}{
		{Config{Nodes: 2}, "Nodes"},
		{Config{Port: -1}, "Port"},
		{Config{Port: 65534, Nodes: 3}, "Port"},
		{Config{HeapMB: -1}, "HeapMB"},
		{Config{ReadyTimeout: -1}, "ReadyTimeout"},
	} {
		if _, err := Start(t.Context(), tc.cfg); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("Start(%+v) = %v, want an error that names %s", tc.cfg, err, tc.want)
		}
	}
}

func TestMissingToolsAreNamed(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := Start(t.Context(), Config{})
	if !errors.Is(err, ErrNoTools) || !strings.Contains(err.Error(), "java") {
		t.Errorf("Start = %v, want ErrNoTools that names java", err)
	}
}

func TestFailedFetchLeavesNoCacheEntry(t *testing.T) {
	bin, cache := t.TempDir(), t.TempDir()
	script := "#!/bin/sh\nmkdir -p lib && echo half > lib/a.jar\necho no network; exit 1\n"
	if err := os.WriteFile(filepath.Join(bin, "mvn"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	if _, err := jars(t.Context(), cache, t.Logf); err == nil || !strings.Contains(err.Error(), "no network") {
		t.Errorf("jars = %v, want what mvn said", err)
	}
	if left, _ := os.ReadDir(cache); len(left) != 0 {
		t.Errorf("the cache holds %v after a failed fetch", left)
	}
}

func TestWorkdirRemovesOnlyLeftovers(t *testing.T) {
	temp := t.TempDir()
	used, err := openWorkdir("", temp)
	if err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(temp, tempPrefix+"dead")
	other := filepath.Join(temp, "precious")
	for _, dir := range []string{left, other} {
		if err = os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	second, err := openWorkdir("", temp)
	if err != nil {
		t.Fatal(err)
	}
	exists := func(dir string) bool { _, err := os.Stat(dir); return err == nil }
	if exists(left) || !exists(other) || !exists(used.path) {
		t.Errorf("leftover there: %v, other there: %v, used there: %v", exists(left), exists(other), exists(used.path))
	}
	for _, w := range []*workdir{used, second} {
		if err := w.close(); err != nil || exists(w.path) {
			t.Errorf("close: %v, directory there: %v", err, exists(w.path))
		}
	}
}

func TestKeptDirIsLockedAndStays(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "data")
	w, err := openWorkdir(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openWorkdir(dir, ""); err == nil {
		t.Error("two clusters on one directory")
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("the directory is gone: %v", err)
	}
}

func TestClusterIDStays(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cluster.id")
	first, err := clusterID(file)
	if err != nil || len(first) != 22 || first[0] == '-' {
		t.Fatalf("clusterID = %q, %v", first, err)
	}
	if again, err := clusterID(file); again != first || err != nil {
		t.Errorf("clusterID = %q, %v, want %q", again, err, first)
	}
}

func TestTailShowsWholeLines(t *testing.T) {
	long := strings.Repeat("line\n", tailBytes) + "the end\n"
	got := string(tail([]byte(long)))
	if len(got) > tailBytes || !strings.HasPrefix(got, "line\n") || !strings.HasSuffix(got, "\nthe end") {
		t.Errorf("tail has %d bytes: %.20q … %q", len(got), got, got[len(got)-10:])
	}
	if got := string(tail([]byte(" short \n"))); got != "short" {
		t.Errorf("tail of a short log = %q", got)
	}
}

func TestAddressesAreDistinct(t *testing.T) {
	addrs, err := addresses(3, 0)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, a := range addrs {
		seen[a.client], seen[a.controller] = true, true
	}
	if len(seen) != 6 {
		t.Errorf("%d different addresses in %v, want 6", len(seen), addrs)
	}
	fixed, err := addresses(3, 19092)
	if err != nil || fixed[2].client != "127.0.0.1:19094" {
		t.Errorf("with a first port: %v, %v", fixed, err)
	}
}
