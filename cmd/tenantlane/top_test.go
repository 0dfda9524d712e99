package main

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tenantlane/tenantlane/consumer/admin"
)

func TestTopOncePrintsWhatFires(t *testing.T) {
	brokers := startBroker(t)
	lateImport(t, brokers, 5000)
	r := runArgs(t, "top", "--once", "--brokers", brokers)
	if r.code != exitDone {
		t.Fatalf("exit %d, stderr %q", r.code, r.stderr)
	}
	for _, want := range []string{"alerts 2", "partition_hot", "importer 100 %", "billing / orders / shared", "3          5000"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("no %q in\n%s", want, r.stdout)
		}
	}
}

// TestTopSaysWhichWorkerDoesNotAnswer: a worker that is away is a problem in
// the picture, not an empty list of tenants.
func TestTopSaysWhichWorkerDoesNotAnswer(t *testing.T) {
	r := runArgs(t, "top", "--once", "--brokers", startBroker(t), "--admin", "http://127.0.0.1:1")
	if r.code != exitDone || !strings.Contains(r.stdout, "cannot reach the worker at http://127.0.0.1:1") {
		t.Errorf("exit %d:\n%s", r.code, r.stdout)
	}
}

func TestWhoAsksWorkersTrustsTheAuthorityThatIsNamed(t *testing.T) {
	worker := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer worker.Close()
	ca := tempFile(t, "ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: worker.Certificate().Raw})))
	brokers := startBroker(t)
	for _, args := range [][]string{{"lanes", "list"}, {"top", "--once", "--brokers", brokers}} {
		args = append(args, "--admin", worker.URL)
		if r := runArgs(t, args...); !strings.Contains(r.stdout+r.stderr, "certificate") {
			t.Errorf("%v trusts anybody: stdout %q, stderr %q", args, r.stdout, r.stderr)
		}
		if r := runArgs(t, append(args, "--admin-ca", ca)...); !strings.Contains(r.stdout+r.stderr, "check --admin-token-file") {
			t.Errorf("%v does not reach the worker: stdout %q, stderr %q", args, r.stdout, r.stderr)
		}
	}
}

func TestTopNeedsATerminal(t *testing.T) {
	r := runArgs(t, "top", "--brokers", "127.0.0.1:1")
	if r.code != exitUsage || !strings.Contains(r.stderr, "--once") {
		t.Errorf("exit %d, stderr %q", r.code, r.stderr)
	}
}

func TestTopTenant(t *testing.T) {
	row := topTenant("w", &admin.Tenant{Tenant: "\ufffd", TenantHex: "ff", State: "parked", Depth: 2, ETAS: new(1.5)})
	if row.Name != "0xff" || row.ETA.Seconds() != 1.5 || row.State != "parked" || row.Depth != 2 {
		t.Errorf("%+v", row)
	}
	if row = topTenant("w", &admin.Tenant{Tenant: "a"}); row.ETA >= 0 || row.Name != "a" {
		t.Errorf("%+v: an ETA that is not known must be negative", row)
	}
}
