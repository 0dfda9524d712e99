package deliver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tenantlane/tenantlane/consumer"
)

const (
	exitDataErr = 65 // EX_DATAERR: the record is wrong
)

// killDelay is how long a command has to end after its deadline, before its
// pipes are closed.
const killDelay = time.Second

var errNoCommand = errors.New("the command is empty")

// NewExec is a target that runs a command for each record, with the value on
// its standard input and what is known of the record in its environment:
// TENANT, KAFKA_KEY, KAFKA_TOPIC, KAFKA_PARTITION, KAFKA_OFFSET, ATTEMPT. Exit
// code 0 is done, 65 (EX_DATAERR) gives the record up, any other is a failed
// attempt. The command is killed at the handler's deadline, and after a failed
// attempt so is what it started: the record's next attempt must not run beside
// it. What it leaves in the background when it exits with 0 is its own, if that
// no longer holds its standard error. On Linux the command is killed when the
// worker's process is; what it started is not.
func NewExec(name string, args ...string) (consumer.Handler, error) {
	if name == "" {
		return nil, errNoCommand
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return nil, fmt.Errorf("command %q: %w", name, err)
	}
	environment := withoutRecord(os.Environ()) //nolint:forbidigo // what the command would see in a shell
	return func(ctx context.Context, r *consumer.Record) error {
		cmd := exec.CommandContext(ctx, path, args...)
		cmd.Stdin = bytes.NewReader(r.Value)
		cmd.WaitDelay = killDelay
		ownGroup(cmd)
		cmd.Env = append(slices.Clip(environment), recordEnvironment(r)...)
		var said tail
		cmd.Stderr = &said
		err := cmd.Run()
		if err != nil {
			killGroup(cmd)
		}
		return judgeExit(err, said.String())
	}, nil
}

func judgeExit(err error, said string) error {
	if err == nil {
		return nil
	}
	if said != "" {
		err = fmt.Errorf("command: %w: %s", err, said)
	} else {
		err = fmt.Errorf("command: %w", err)
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == exitDataErr {
		return consumer.Permanent(err)
	}
	return err
}

// recordVariables describe a record to its command.
var recordVariables = []string{"TENANT", "KAFKA_KEY", "KAFKA_TOPIC", "KAFKA_PARTITION", "KAFKA_OFFSET", "ATTEMPT"}

// withoutRecord takes out what would pass for a record's: a worker's own TENANT
// would stand in for a tenant that an environment cannot hold.
func withoutRecord(environment []string) []string {
	return slices.DeleteFunc(environment, func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return slices.Contains(recordVariables, name)
	})
}

// recordEnvironment leaves out what an environment cannot hold: a zero byte.
func recordEnvironment(r *consumer.Record) []string {
	env := []string{
		"KAFKA_TOPIC=" + r.Topic,
		"KAFKA_PARTITION=" + strconv.Itoa(int(r.Partition)),
		"KAFKA_OFFSET=" + strconv.FormatInt(r.Offset, 10),
		"ATTEMPT=" + strconv.Itoa(r.Attempt),
	}
	if bytes.IndexByte(r.Tenant, 0) < 0 {
		env = append(env, "TENANT="+string(r.Tenant))
	}
	if bytes.IndexByte(r.Key, 0) < 0 {
		env = append(env, "KAFKA_KEY="+string(r.Key))
	}
	return env
}

// tail keeps the last bytes that are written to it.
type tail struct{ buf []byte }

const tailBytes = 256

// Write keeps the end of p.
func (t *tail) Write(p []byte) (int, error) {
	t.buf = append(t.buf, p[max(len(p)-tailBytes, 0):]...)
	t.buf = t.buf[max(len(t.buf)-tailBytes, 0):]
	return len(p), nil
}

// String is what was kept, as one line.
func (t *tail) String() string {
	return string(bytes.Join(bytes.Fields(bytes.ToValidUTF8(t.buf, nil)), []byte(" ")))
}
