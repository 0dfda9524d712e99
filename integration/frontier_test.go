package integration

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/tenantlane/tenantlane/consumer"
	"github.com/tenantlane/tenantlane/consumer/admin"
	"github.com/tenantlane/tenantlane/consumer/offset"
	"github.com/tenantlane/tenantlane/internal/check"
)

// ahead is how many records of others lie behind the parked one.
const ahead = 500_000

// parkedTenant has the first records of the log.
const parkedTenant = "parked-tenant"

// frontierRun is one partition whose first record is parked, and the worker
// that goes on regardless, as processes.
type frontierRun struct {
	t            *testing.T
	ctx          context.Context //nolint:containedctx // the test's own
	broker       broker
	topic, group string
	log          string
	addr         string // of the admin endpoint
	admin        *kadm.Client
}

// A parked record at the partition's begin, half a million handled records
// behind it, and kill -9: once among them, once during the recovery, once when
// all is done. What repeats is what the commits, as the worker's log has them, did
// not say to be done, by frontier and names: verify holds each repeat to that. The
// tenant stays parked until it is resumed.
func TestParkedRecordHoldsUpNoFrontier(t *testing.T) {
	b := realBroker(t)
	suite.binary.command(t) // takes time of its own
	r := newFrontierRun(t, b)
	r.produce("--count", "3", "--tenants", r.population(parkedTenant))
	r.produce("--count", "500000", "--size", "100")

	first := r.work("--handler-fail", parkedTenant)
	awaitLines(r.ctx, t, r.log, ahead/5)
	r.kill(first)
	assigned := r.assignments()
	second := r.work("--handler-fail", parkedTenant)
	await(r.ctx, t, "the second worker begins", func() bool { return r.assignments() > assigned })
	r.kill(second)
	third := r.work("--handler-fail", parkedTenant)
	await(r.ctx, t, "a commit of all but the parked lane", func() bool { return r.frontier(ahead + 3) })
	if n := r.kill(third); n != 0 {
		t.Errorf("%d records above a frontier that is at the end", n)
	}

	last := r.work() // would handle what is parked
	operator := r.operator()
	await(r.ctx, t, "the tenant to be found parked", func() bool { return r.parked(operator) })
	r.produce("--count", "1000")
	await(r.ctx, t, "a commit of what came meanwhile", func() bool { return r.frontier(ahead + 1003) })
	if !r.parked(operator) {
		t.Error("the tenant is not parked any more")
	}
	if effect, err := operator.Resume(r.ctx, []byte(parkedTenant), consumer.Act{Actor: "test"}); err != nil || effect.Lanes != 1 {
		t.Errorf("resuming: %+v, %v; want one lane", effect, err)
	}
	if err := awaitCommits(r.ctx, b.client(t), r.group, r.topic); err != nil {
		t.Error(err)
	}
	last.signal(t, syscall.SIGTERM)
	if code := last.wait(t); code != 0 {
		t.Errorf("the last worker ended with %d", code)
	}
	report := verify(t, b, r.topic, "", []string{r.log})
	if want := uint64(ahead + 1003); report.Produced != want || report.Duplicates != report.DuplicatesAllowed {
		t.Errorf("%d produced, %d repeats; want %d, and no more than the %d that the commits explain",
			report.Produced, report.Duplicates, want, report.DuplicatesAllowed)
	}
	if named := r.named(); named != 3 {
		t.Errorf("%d assignments went on from a frontier, want all but the first worker's", named)
	}
}

func newFrontierRun(t *testing.T, b broker) *frontierRun {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer free.Close()
	return &frontierRun{
		t: t, ctx: deadline(t, 4*time.Minute), broker: b, topic: b.topic(t, 1), group: unique(t, "group"),
		log: filepath.Join(t.TempDir(), "worker.log"), addr: free.Addr().String(), admin: kadm.NewClient(b.client(t)),
	}
}

// population is a file of one tenant.
func (r *frontierRun) population(tenant string) string {
	r.t.Helper()
	file := filepath.Join(r.t.TempDir(), "tenants.tsv")
	if err := os.WriteFile(file, []byte(tenant+"\t1\n"), 0o600); err != nil {
		r.t.Fatal(err)
	}
	return file
}

func (r *frontierRun) produce(args ...string) {
	r.t.Helper()
	if code := r.broker.begin(r.t, append([]string{"loadgen", "--topic", r.topic}, args...)...).wait(r.t); code != 0 {
		r.t.Fatalf("loadgen ended with %d", code)
	}
}

// work starts the worker. It is a static member, so that its successor gets the
// partition at once.
func (r *frontierRun) work(more ...string) *process {
	r.t.Helper()
	return r.broker.begin(r.t, append([]string{
		"worker", "--topic", r.topic, "--group", r.group, "--instance-id", "one", "--discard",
		"--log-file", r.log, "--admin", r.addr, "--commit-interval", "200ms",
	}, more...)...)
}

// kill ends a worker by kill -9. It returns how many of the records that were
// handled the group's commit does not say to be done.
func (r *frontierRun) kill(p *process) (unsaid uint64) {
	r.t.Helper()
	p.signal(r.t, syscall.SIGKILL)
	if code := p.wait(r.t); code != -1 {
		r.t.Fatalf("%s ended with %d before it was killed", p.name, code)
	}
	said := r.commit()
	seen := make(map[int64]bool)
	r.eachLine(func(line check.Line) {
		h := line.Handling
		if line.Kind == check.KindHandled && !seen[h.Offset] && !said.Done(offset.Name([]byte(h.ID.Tenant)), h.Offset) {
			seen[h.Offset] = true
			unsaid++
		}
	})
	r.t.Logf("killed with the commit at %d, the frontier at %d and %d lanes named: %d handled records are not said to be done",
		said.Watermark, said.Frontier, len(said.Lanes), unsaid)
	return unsaid
}

// commit is what the group's commit says.
func (r *frontierRun) commit() offset.Checkpoint {
	r.t.Helper()
	commits, err := r.admin.FetchOffsets(r.ctx, r.group)
	if err != nil {
		r.t.Fatal(err)
	}
	at, ok := commits.Lookup(r.topic, 0)
	if !ok {
		return offset.Checkpoint{}
	}
	said, why := offset.Decode(at.Metadata)
	if why != offset.Valid {
		return offset.Checkpoint{State: offset.State{Watermark: at.At, Frontier: at.At}}
	}
	return said
}

// frontier says that the commit names one lane, the parked one, and all else
// below an offset is done.
func (r *frontierRun) frontier(at int64) bool {
	said := r.commit()
	return said.Watermark == 0 && said.Frontier >= at && len(said.Lanes) == 1 && said.Lanes[0].Parked
}

func (r *frontierRun) operator() *admin.Client {
	r.t.Helper()
	client, err := admin.NewClient(r.addr, "")
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(client.Close)
	return client
}

func (r *frontierRun) parked(operator *admin.Client) bool {
	one, err := operator.Tenant(r.ctx, []byte(parkedTenant))
	return err == nil && one.State == string(consumer.StateParked) && len(one.Troubles) == 1 && one.Troubles[0].Offset == 0
}

// assignments is how often the log says that a worker was given the partition.
func (r *frontierRun) assignments() (n int) {
	r.t.Helper()
	r.eachLine(func(line check.Line) {
		if line.Kind == check.KindAssigned {
			n++
		}
	})
	return n
}

// named is how many assignments the log says to have gone on from a frontier.
func (r *frontierRun) named() (n int) {
	r.t.Helper()
	r.eachLine(func(line check.Line) {
		if line.Kind == check.KindAssigned && line.Named {
			n++
		}
	})
	return n
}

func (r *frontierRun) eachLine(do func(check.Line)) {
	r.t.Helper()
	file, err := os.Open(r.log)
	if err != nil {
		r.t.Fatal(err)
	}
	defer file.Close()
	for lines := check.NewReader(r.log, file); ; {
		line, err := lines.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			r.t.Fatal(err)
		}
		do(line)
	}
}
