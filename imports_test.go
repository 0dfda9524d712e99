// Package tenantlane_test holds the repository to its import directions.
package tenantlane_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/tenantlane/tenantlane/"

// pure packages decide and do no I/O. The value is what they may import of
// ours and of others.
var pure = map[string][]string{
	"partitioner/routing": {"github.com/cespare/xxhash/v2", "golang.org/x/crypto/blake2b", "go.yaml.in/yaml/v4"},
	"rebalance/move":      {module + "partitioner/routing"},
	"rebalance/plan":      {module + "partitioner/routing", "github.com/cespare/xxhash/v2"},
	"consumer/lane":       {"golang.org/x/time/rate"},
	"consumer/offset":     nil,
	"lagwatch/lag":        nil,
	"lagwatch/mute":       {"go.yaml.in/yaml/v4"},
	"internal/sketch":     nil,
	"internal/check":      {module + "consumer/offset"},
	"internal/marks":      nil,
}

// shells may import any pure package, and of the others these. Packages below
// those of free may import all.
var shells = map[string][]string{
	"partitioner/store":            nil,
	"partitioner":                  {"partitioner/store"},
	"partitioner/adopt":            {"partitioner", "internal/sample"},
	"partitioner/live":             {"partitioner", "internal/sample"},
	"rebalance":                    {"partitioner/store"},
	"consumer":                     {"partitioner", "partitioner/store", "rebalance", "consumer/refetch"},
	"consumer/admin":               {"consumer"},
	"consumer/middleware":          {"consumer"},
	"consumer/refetch":             nil,
	"consumer/consumertest":        {"consumer", "partitioner/store", "internal/wire"},
	"lagwatch":                     {"partitioner", "partitioner/store", "lagwatch/notify", "internal/sample"},
	"lagwatch/notify":              nil,
	"internal/sample":              nil,
	"internal/dlq":                 {"consumer", "partitioner", "internal/sample"},
	"internal/top":                 {"lagwatch"},
	"internal/stale":               {"consumer", "partitioner", "partitioner/store", "internal/sample"},
	"internal/embedded":            nil,
	"internal/wire":                nil,
	"internal/load":                {"partitioner", "partitioner/store", "internal/sample"},
	"internal/testkit":             {"internal/embedded"},
	"integration/kafka":            nil,
	"integration/kafka/foreground": {"integration/kafka"},
}

// free holds commands, the logic behind them, and tests.
var free = map[string]bool{"cmd": true, "deploy": true, "integration": true, "internal/demo": true, "internal/bench": true, "internal/deliver": true}

// listed is what "go list -json" says of a package.
type listed struct {
	ImportPath  string
	Standard    bool
	Imports     []string
	Deps        []string
	TestImports []string
	GoFiles     []string
}

func goList(t *testing.T, args ...string) []listed {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-e", "-json=ImportPath,Standard,Imports,Deps,TestImports,GoFiles"}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, &stderr)
	}
	var all []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// dependOnSources looks at every source file, so that "go test" does not take
// an old result for one of the tree as it is: it does not see what "go list"
// reads.
func dependOnSources(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() && len(name) > 1 && name[0] == '.' {
			return filepath.SkipDir
		}
		if filepath.Ext(path) == ".go" {
			_, err = os.Stat(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// room returns the deepest folder of the map's that holds the package.
func room[V any](rooms map[string]V, importPath string) string {
	folder, owner := strings.TrimPrefix(importPath, module), ""
	for name := range rooms {
		if (folder == name || strings.HasPrefix(folder, name+"/")) && len(name) > len(owner) {
			owner = name
		}
	}
	return owner
}

func TestPurePackagesDoNoIO(t *testing.T) {
	dependOnSources(t)
	for name := range pure {
		t.Run(name, func(t *testing.T) {
			for _, p := range goList(t, "./"+name+"/...") {
				for _, imp := range p.Imports {
					if reason := impure(name, imp); reason != "" {
						t.Errorf("%s imports %s: %s", p.ImportPath, imp, reason)
					}
				}
				// fmt reaches os, so what is reached is held to less than
				// what is imported.
				for _, dep := range p.Deps {
					if slices.Contains([]string{"net", "net/http", "log", "log/slog", "os/exec", "flag"}, dep) {
						t.Errorf("%s reaches %s", p.ImportPath, dep)
					}
				}
			}
		})
	}
}

// impure says why a package of the pure room must not import imp, or nothing.
func impure(name, imp string) string {
	first, _, _ := strings.Cut(imp, "/")
	switch {
	case slices.Contains([]string{"net", "os", "log", "flag", "syscall"}, first):
		return "it does I/O"
	case !strings.Contains(first, "."): // the standard library
		return ""
	case slices.Contains(pure[name], imp), room(pure, imp) == name:
		return ""
	}
	return "only " + fmt.Sprint(pure[name])
}

func TestShellsImportDownwardsOnly(t *testing.T) {
	dependOnSources(t)
	for _, p := range goList(t, "./...") {
		for _, imp := range p.Imports {
			if target, ours := strings.CutPrefix(imp, module); ours {
				if reason := upward(strings.TrimPrefix(p.ImportPath, module), target); reason != "" {
					t.Errorf("%s imports %s: %s", p.ImportPath, target, reason)
				}
			}
		}
	}
}

// upward says why the package in folder must not import our package target, or
// nothing. What pure packages import is held by another test.
func upward(folder, target string) string {
	from, to := room(shells, folder), room(shells, target)
	switch {
	case strings.HasPrefix(target, "cmd/"):
		return "nothing imports the command"
	case strings.HasPrefix(target, "integration") && !strings.HasPrefix(folder, "integration"), target == "internal/testkit":
		return "it is for tests"
	case from == "", from == to, room(pure, folder) != "", room(pure, target) != "", slices.Contains(shells[from], target):
		return ""
	}
	return "of the shells it may import only " + fmt.Sprint(shells[from])
}

// A test inside a package must not import testkit: testkit may come to import
// that package, and the user must then be package x_test. Nothing imports
// integration.
func TestTestkitIsUsedFromOutside(t *testing.T) {
	dependOnSources(t)
	for _, p := range goList(t, "./...") {
		if p.ImportPath+"/" != module+"integration/" && slices.Contains(p.TestImports, module+"internal/testkit") {
			t.Errorf("%s: a test of package x, not x_test, imports internal/testkit", p.ImportPath)
		}
	}
}

// Every package has a place in the rules above, so that a new one cannot slip
// by them.
func TestEveryPackageHasItsRule(t *testing.T) {
	dependOnSources(t)
	for _, p := range goList(t, "./...") {
		if len(p.GoFiles) > 0 && room(pure, p.ImportPath)+room(shells, p.ImportPath)+room(free, p.ImportPath) == "" {
			t.Errorf("%s has no rule in imports_test.go", p.ImportPath)
		}
	}
}
