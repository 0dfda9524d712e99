package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"
)

// stopMargin is what a stop may take beyond --drain-timeout: handlers' grace,
// the last commit, leaving the group, and the last answers to operators.
const stopMargin = 14 * time.Second

func deployFile(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(projectRoot, "deploy", name))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// workerArgs are the values of a worker's flags on a command line that parses.
func workerArgs(t *testing.T, args []string) map[string]string {
	t.Helper()
	if err := parses(args); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	cmd, rest, err := newRootCommand(&env{}).Find(args)
	if err != nil || cmd.Name() != "worker" {
		t.Fatalf("%v is %v, %v", args, cmd, err)
	}
	if err := cmd.ParseFlags(rest); err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for _, name := range []string{"admin", "admin-token-file", "listen", "drain-timeout", "sasl-password-file"} {
		values[name] = cmd.Flags().Lookup(name).Value.String()
	}
	return values
}

// wantGrace requires that a supervisor waits longer than a stop may take.
func wantGrace(t *testing.T, grace time.Duration, drain string) {
	t.Helper()
	d, err := time.ParseDuration(drain)
	if err != nil || grace < d+stopMargin {
		t.Errorf("killed after %v, but a drain of %s may take %v (%v)", grace, drain, d+stopMargin, err)
	}
}

func TestTheSystemdUnitRunsAWorkerThatCanDrain(t *testing.T) {
	unit := strings.ReplaceAll(string(deployFile(t, "systemd/tenantlane-worker.service")), "\\\n", " ")
	setting := func(name string) string {
		t.Helper()
		found := regexp.MustCompile(`(?m)^`+name+`=(.*)$`).FindAllStringSubmatch(unit, -1)
		if len(found) == 0 {
			t.Fatalf("no %s in the unit", name)
		}
		var all []string
		for _, f := range found {
			all = append(all, f[1])
		}
		return strings.Join(all, "\n")
	}
	words := strings.Fields(setting("ExecStart"))
	flags := workerArgs(t, words[1:])
	seconds, err := strconv.Atoi(setting("TimeoutStopSec"))
	if err != nil {
		t.Fatal(err)
	}
	wantGrace(t, time.Duration(seconds)*time.Second, flags["drain-timeout"])
	if setting("KillSignal") != "SIGTERM" || setting("KillMode") != "mixed" {
		t.Error("a stop is not SIGTERM to the worker alone")
	}
	for _, name := range []string{"admin-token-file", "sasl-password-file"} {
		credential, ok := strings.CutPrefix(flags[name], "%d/")
		if !ok || !strings.Contains(setting("LoadCredential"), credential+":") {
			t.Errorf("--%s %s is not a credential of the unit", name, flags[name])
		}
	}
	wantNoSecrets(t, setting("Environment"))
}

// wantNoSecrets requires that an environment, which others may read, holds none.
func wantNoSecrets(t *testing.T, environment string) {
	t.Helper()
	for _, word := range []string{"PASSWORD", "TOKEN", "SECRET"} {
		if strings.Contains(strings.ToUpper(environment), word) {
			t.Errorf("a secret in the environment: %s", environment)
		}
	}
}

// deployment is what the test looks at in a Kubernetes Deployment.
type deployment struct {
	Kind string
	Spec struct {
		Template struct {
			Spec struct {
				TerminationGracePeriodSeconds int `yaml:"terminationGracePeriodSeconds"`
				Containers                    []containerYAML
				Volumes                       []volumeYAML
			}
		}
	}
}

type containerYAML struct {
	Args           []string
	Env            []struct{ Name string }
	Ports          []portYAML
	ReadinessProbe probeYAML   `yaml:"readinessProbe"`
	LivenessProbe  probeYAML   `yaml:"livenessProbe"`
	VolumeMounts   []mountYAML `yaml:"volumeMounts"`
}

type portYAML struct {
	Name          string
	ContainerPort int `yaml:"containerPort"`
}

type mountYAML struct {
	Name      string
	MountPath string `yaml:"mountPath"`
}

type volumeYAML struct {
	Name   string
	Secret struct {
		SecretName string `yaml:"secretName"`
	}
}

type probeYAML struct {
	HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
}

func TestTheKubernetesDeploymentRunsAWorkerThatCanDrain(t *testing.T) {
	decoder := yaml.NewDecoder(bytes.NewReader(deployFile(t, "kubernetes/worker.yaml")))
	var found *deployment
	for {
		var d deployment
		err := decoder.Decode(&d)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if d.Kind == "Deployment" {
			found = &d
		}
	}
	if found == nil || len(found.Spec.Template.Spec.Containers) != 1 {
		t.Fatalf("%+v", found)
	}
	pod := found.Spec.Template.Spec
	worker := pod.Containers[0]
	flags := workerArgs(t, worker.Args)
	wantGrace(t, time.Duration(pod.TerminationGracePeriodSeconds)*time.Second, flags["drain-timeout"])
	for path, probe := range map[string]probeYAML{"/-/ready": worker.ReadinessProbe, "/-/healthy": worker.LivenessProbe} {
		if probe.HTTPGet.Path != path || probe.HTTPGet.Port != "admin" {
			t.Errorf("probe %+v, want %s at the port admin", probe, path)
		}
	}
	for _, port := range worker.Ports {
		address := map[string]string{"admin": flags["admin"], "metrics": flags["listen"]}[port.Name]
		if address != "0.0.0.0:"+strconv.Itoa(port.ContainerPort) {
			t.Errorf("port %+v, but the worker listens at %q", port, address)
		}
	}
	if len(worker.VolumeMounts) != 1 || len(pod.Volumes) != 1 || pod.Volumes[0].Secret.SecretName == "" || worker.VolumeMounts[0].Name != pod.Volumes[0].Name {
		t.Fatalf("secrets are not mounted: %+v, %+v", worker.VolumeMounts, pod.Volumes)
	}
	for _, name := range []string{"admin-token-file", "sasl-password-file"} {
		if !strings.HasPrefix(flags[name], worker.VolumeMounts[0].MountPath+"/") {
			t.Errorf("--%s %s is not in the mounted secret", name, flags[name])
		}
	}
	for _, e := range worker.Env {
		wantNoSecrets(t, e.Name)
	}
}
