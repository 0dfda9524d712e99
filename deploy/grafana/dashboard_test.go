package grafana_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"

	"github.com/tenantlane/tenantlane/deploy/grafana"
)

var update = flag.Bool("update", false, "write tenantlane.json")

const file = "tenantlane.json"

func TestFileIsWhatTheCodeMakes(t *testing.T) {
	made, err := grafana.Dashboard()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err = os.WriteFile(file, made, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(made, kept) {
		t.Fatal("tenantlane.json is not what the code makes; go test ./deploy/grafana -update")
	}
}

// The file is read back by Grafana's own types, strictly.
func TestFileIsADashboard(t *testing.T) {
	plugins.RegisterDefaultPlugins()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard.Dashboard //nolint:staticcheck // schema 1, as the code makes it
	if err := json.Unmarshal(data, &d); err != nil {
		t.Fatal(err)
	}
	if err := d.Validate(); err != nil {
		t.Fatal(err)
	}
	if len(d.Panels) < 15 || d.Uid == nil || *d.Uid != "tenantlane" {
		t.Fatalf("%d panels", len(d.Panels))
	}
}

// Every query names metrics that the code exports.
func TestQueriesNameMetricsThatExist(t *testing.T) {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	source := map[string]string{
		"tenantlane_lagwatch_": sources(t, "../../lagwatch"),
		"tenantlane_consumer_": sources(t, "../../consumer"),
	}
	names := regexp.MustCompile(`tenantlane_[a-z]+_\w+`).FindAllString(string(data), -1)
	if len(names) < 15 {
		t.Fatalf("%d metrics", len(names))
	}
	for _, name := range names {
		for prefix, text := range source {
			base, ok := strings.CutPrefix(strings.TrimSuffix(name, "_bucket"), prefix)
			if ok && !strings.Contains(text, `"`+base+`"`) {
				t.Errorf("%s: %s has no such metric", name, prefix)
			}
		}
	}
}

// sources is the text of a package's files.
func sources(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(text)
	}
	return b.String()
}
