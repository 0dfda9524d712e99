package kafka_test

import (
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/tenantlane/tenantlane/integration/kafka"
)

// where a broker is and what it is called: the harness and Docker differ here.
var addressing = []string{
	"process.roles", "node.id", "controller.quorum.voters", "listeners", "advertised.listeners",
	"controller.listener.names", "inter.broker.listener.name", "listener.security.protocol.map", "log.dirs",
}

func compose(t *testing.T, profiles ...string) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{"../../docker-compose.kafka.yml"}, cli.WithProfiles(profiles))
	if err != nil {
		t.Fatalf("compose file: %v", err)
	}
	project, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatalf("compose file: %v", err)
	}
	return project
}

// brokerSettings undoes how the image spells a property as a variable.
func brokerSettings(service types.ServiceConfig) map[string]string {
	props := map[string]string{}
	for name, value := range service.Environment {
		if key, ok := strings.CutPrefix(name, "KAFKA_"); ok && value != nil {
			key = strings.ReplaceAll(strings.ToLower(key), "_", ".")
			props[key] = *value
		}
	}
	return props
}

func TestComposeStartsOneBrokerUnlessThreeAreAskedFor(t *testing.T) {
	for _, tc := range []struct {
		profiles []string
		want     []string
	}{
		{nil, []string{"kafka"}},
		{[]string{"three"}, []string{"kafka", "kafka-1", "kafka-2", "kafka-3"}},
		{[]string{"watch"}, []string{"alertmanager", "kafka", "prometheus"}},
	} {
		if got := slices.Sorted(maps.Keys(compose(t, tc.profiles...).Services)); !slices.Equal(got, tc.want) {
			t.Errorf("with the profiles %v: services %v, want %v", tc.profiles, got, tc.want)
		}
	}
}

func TestComposeBrokersAreSetLikeTheHarness(t *testing.T) {
	for name, service := range compose(t, "three").Services {
		nodes := 1
		if name != "kafka" {
			nodes = 3
		}
		got := brokerSettings(service)
		for _, key := range addressing {
			if got[key] == "" {
				t.Errorf("%s: %s is not set", name, key)
			}
			delete(got, key)
		}
		if diff := cmp.Diff(kafka.Settings(nodes), got); diff != "" {
			t.Errorf("%s: settings differ from the harness's (-harness +compose):\n%s", name, diff)
		}
		if want := "apache/kafka:" + kafka.Version; service.Image != want {
			t.Errorf("%s: image %s, want %s", name, service.Image, want)
		}
	}
}

func TestComposeBrokersAreUsable(t *testing.T) {
	project := compose(t, "three")
	nodeIDs, volumes := map[string]string{}, map[string]string{}
	for name, service := range project.Services {
		if service.HealthCheck == nil || len(service.HealthCheck.Test) == 0 {
			t.Errorf("%s: no health check", name)
		}
		if len(service.Ports) != 1 || !net.ParseIP(service.Ports[0].HostIP).IsLoopback() {
			t.Fatalf("%s: ports %v, want one, on a loopback address", name, service.Ports)
		}
		advertised := "PLAINTEXT://localhost:" + service.Ports[0].Published + ","
		props := brokerSettings(service)
		if !strings.HasPrefix(props["advertised.listeners"], advertised) {
			t.Errorf("%s: advertises %s to clients, who reach it at %s", name, props["advertised.listeners"], advertised)
		}
		if len(service.Volumes) != 1 || service.Volumes[0].Target != props["log.dirs"] {
			t.Fatalf("%s: volumes %v, want one at %s", name, service.Volumes, props["log.dirs"])
		}
		if other := volumes[service.Volumes[0].Source]; other != "" {
			t.Errorf("%s and %s share a volume", name, other)
		}
		volumes[service.Volumes[0].Source] = name
		cluster := *service.Environment["CLUSTER_ID"]
		if other := nodeIDs[cluster+props["node.id"]]; other != "" {
			t.Errorf("%s and %s are the same node", name, other)
		}
		nodeIDs[cluster+props["node.id"]] = name
	}
}

// Prometheus and Alertmanager listen on the loopback address alone, and use the
// files that are tested with the programs themselves.
func TestComposeWatchersUseTheDeployedFiles(t *testing.T) {
	services := compose(t, "watch").Services
	for name, file := range map[string]string{"prometheus": "prometheus.yml", "alertmanager": "alertmanager.yml"} {
		service := services[name]
		if service.HealthCheck == nil || !strings.Contains(service.Image, ":v") || service.NetworkMode != "host" || len(service.Ports) != 0 {
			t.Errorf("%s: image %s, network %q, ports %v", name, service.Image, service.NetworkMode, service.Ports)
		}
		flags := map[string]string{}
		for _, arg := range service.Command {
			flag, value, _ := strings.Cut(arg, "=")
			flags[flag] = value
		}
		host, _, err := net.SplitHostPort(flags["--web.listen-address"])
		if err != nil || !net.ParseIP(host).IsLoopback() {
			t.Errorf("%s listens on %q", name, flags["--web.listen-address"])
		}
		mounted := false
		for _, v := range service.Volumes {
			if v.Type != types.VolumeTypeBind || flags["--config.file"] != v.Target+"/"+file {
				continue
			}
			if _, err := os.Stat(filepath.Join(v.Source, file)); err != nil || !v.ReadOnly {
				t.Errorf("%s: %v, read only: %v", name, err, v.ReadOnly)
			}
			mounted = true
		}
		if !mounted {
			t.Errorf("%s: %s is not mounted", name, flags["--config.file"])
		}
	}
}
