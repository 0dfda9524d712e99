package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/partitioner/store"
)

func TestMovesOfAFileAreNotOffered(t *testing.T) {
	for _, args := range []string{"move status", "move abort m1", "move run --plan p.json", "table history", "table rollback 2"} {
		runArgs(t, append(strings.Fields(args), "--table", "routing.yaml")...).wantError(t, exitUsage, "--table:", "--table-topic NAME", "table push")
		if help := runArgs(t, append(strings.Fields(args), "--help")...); strings.Contains(help.stdout, "--table string") || !strings.Contains(help.stdout, "--table-topic string") {
			t.Errorf("help of %s:\n%s", args, help.stdout)
		}
	}
	runArgs(t, "move", "status", "--brokers", "127.0.0.1:1").wantError(t, exitUsage, "--table-topic NAME")
}

// A tenant that is not text is named in hexadecimal wherever moves are.
func TestMovesOfATenantThatIsNotText(t *testing.T) {
	brokers := wrapped(t)
	moved := one[moveJSON](t, inTopic(brokers, "move", "start", "ff00", "--hex", "--to", "3", "--log-level", "error")...)
	for want, named := range map[int][]string{1: {"ff00", "--hex"}, 0: {"ff00"}} {
		got := rows[moveStatusJSON](t, runArgs(t, inTopic(brokers, append([]string{"move", "status", "--format", "json"}, named...)...)...))
		if len(got) != want || want > 0 && (got[0].Move != moved.Move || got[0].TenantHex != "ff00") {
			t.Errorf("status of %v: %+v, want %d", named, got, want)
		}
	}
	runArgs(t, inTopic(brokers, "move", "status", "zz", "--hex")...).wantError(t, exitUsage, "hexadecimal")
	runArgs(t, inTopic(brokers, "move", "abort", "zz", "--hex")...).wantError(t, exitUsage, "hexadecimal")
	runArgs(t, inTopic(brokers, "move", "abort", "ff00", "--hex")...).wantError(t, exitNo, "no open move")
}

// A move whose coordinator is gone: status shows whom it waits for, abort ends it.
func TestAnOpenMoveIsShownAndAborted(t *testing.T) {
	brokers := wrapped(t)
	table := openTable(t, brokers)
	session, err := table.Register(t.Context(), store.SessionConfig{Client: "stuck", Topics: []string{"orders"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := session.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	prepare := func(id, tenant string) {
		_, err := table.Update(t.Context(), store.Author{}, func(present *routing.Table) (*routing.Table, error) {
			return present.Edit(routing.PrepareMove("orders", routing.Move{ID: id, Tenant: tenant, To: []int32{5}, Deadline: time.Now().Add(time.Hour)}))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	prepare("m1", "acme")
	prepare("m2", "globex")
	status := rows[moveStatusJSON](t, runArgs(t, inTopic(brokers, "move", "status", "m1", "--format", "json")...))
	if len(status) != 1 || status[0].State != "PREPARED" || status[0].Deadline == "" || len(status[0].WaitingFor) != 1 || !strings.HasPrefix(status[0].WaitingFor[0], "stuck ") {
		t.Errorf("%+v", status)
	}
	runArgs(t, inTopic(brokers, "move", "start", "acme", "--to", "3", "--log-level", "error")...).wantError(t, exitNo, "m1", "move status")
	if got := one[moveJSON](t, inTopic(brokers, "move", "abort", "m1")...); got.State != "ABORTED" || got.Tenant != "acme" {
		t.Errorf("%+v", got)
	}
	text := runArgs(t, inTopic(brokers, "move", "abort", "globex")...)
	text.wantDone(t)
	if !strings.Contains(text.stdout, "globex") {
		t.Errorf("%q", text.stdout)
	}
	if err := table.Sync(t.Context()); err != nil || topicOf(t, table).Moving() {
		t.Errorf("a move is open, %v", err)
	}
}

// onText keeps what is written, and does something at each write that has a text.
type onText struct {
	bytes.Buffer

	text string
	then func()
}

func (o *onText) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte(o.text)) {
		o.then()
	}
	return o.Buffer.Write(line)
}

// Ctrl-C during a move that waits aborts it.
func TestAnInterruptedMoveIsAborted(t *testing.T) {
	brokers := wrapped(t)
	table := openTable(t, brokers)
	session, err := table.Register(t.Context(), store.SessionConfig{Client: "stuck", Topics: []string{"orders"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := session.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	args := inTopic(brokers, "move", "start", "acme", "--to", "3", "--format", "json", "--log-level", "debug")
	var stdout bytes.Buffer
	stderr := onText{text: "waiting for a producer", then: cancel}
	code := run(ctx, args, strings.NewReader(""), &stdout, &stderr)
	var m moveJSON
	if err := json.Unmarshal(stdout.Bytes(), &m); err != nil || code != exitInterrupted || m.State != "ABORTED" || len(m.WaitingFor) != 1 {
		t.Errorf("exit code %d, %+v, %v (stderr %q)", code, m, err, stderr.String())
	}
	if err := errors.Join(table.Sync(t.Context())); err != nil || topicOf(t, table).Moved() {
		t.Errorf("moves %v, %v", topicOf(t, table).Moves(), err)
	}
}
