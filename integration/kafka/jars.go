package kafka

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ErrNoTools is returned when java or mvn is not on the PATH.
var ErrNoTools = errors.New("java or mvn is missing")

//go:embed pom.xml
var pom []byte

// Available tells whether this machine has what it takes to start a broker;
// the error wraps ErrNoTools and names what is missing.
func Available() error {
	for _, tool := range []string{"java", "mvn"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("%w: %w", ErrNoTools, err)
		}
	}
	return nil
}

// jars returns a folder with the broker's jars, fetching them if the cache
// does not hold those of this pom. The folder gets its name only when it is
// complete, so that a fetch that was cut short, or another process's, is never
// taken for a finished one.
func jars(ctx context.Context, cache string, logf func(string, ...any)) (string, error) {
	sum := sha256.Sum256(pom)
	lib := filepath.Join(cache, "kafka-"+Version+"-"+hex.EncodeToString(sum[:6]))
	if _, err := os.Stat(lib); err == nil {
		return lib, nil
	}
	if err := os.MkdirAll(cache, 0o750); err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(cache, "fetch-*")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work) //nolint:errcheck // what stays is only disk space
	logf("fetching the jars of Apache Kafka %s with mvn, once", Version)
	if err = fetch(ctx, work); err != nil {
		return "", err
	}
	err = os.Rename(filepath.Join(work, "lib"), lib)
	if _, statErr := os.Stat(lib); statErr == nil {
		return lib, nil // ours, or that of a process which was faster
	}
	return "", err
}

func fetch(ctx context.Context, work string) error {
	if err := os.WriteFile(filepath.Join(work, "pom.xml"), pom, 0o600); err != nil {
		return err
	}
	mvn := exec.CommandContext(ctx, "mvn", "-q", "-B", "--strict-checksums", "-Dstyle.color=never",
		"dependency:copy-dependencies", "-DoutputDirectory=lib", "-DincludeScope=runtime")
	mvn.Dir = work
	if out, err := mvn.CombinedOutput(); err != nil {
		return fmt.Errorf("mvn could not fetch Kafka's jars: %w\n%s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// Jars returns a folder with the jars of Version, kafka-clients among them,
// for Java programs of tests. It fetches them as Start does; of the Config
// only Cache and Logf matter.
func Jars(ctx context.Context, cfg Config) (string, error) {
	if err := Available(); err != nil {
		return "", fmt.Errorf("kafka: %w", err)
	}
	cfg = cfg.withDefaults()
	lib, err := jars(ctx, cfg.Cache, cfg.Logf)
	if err != nil {
		return "", fmt.Errorf("kafka: %w", err)
	}
	return lib, nil
}
