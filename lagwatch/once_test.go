package lagwatch_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tenantlane/tenantlane/lagwatch"
	"github.com/tenantlane/tenantlane/lagwatch/lag"
)

// hotCluster has partition 2 full of an importer's records, five minutes old.
func hotCluster(t *testing.T) *cluster {
	c := newCluster(t, 1)
	for p := range int32(4) {
		c.produce(p, "ordinary", 100, 10*time.Minute)
	}
	c.produce(2, "importer", 5000, 5*time.Minute)
	c.commit("billing", 100, 98, 100, 100)
	return c
}

func TestOnceNamesThePartitionAndTheTenant(t *testing.T) {
	t.Parallel()
	e := hotCluster(t).once(nil)
	p := pool(t, e, "billing", lag.SharedPool)
	if e.Blind || !e.Fires() || len(p.Firing) != 2 {
		t.Fatal(asJSON(t, e))
	}
	f := p.Firing[0]
	if f.Alert != lag.AlertHot || !slices.Equal(f.Partitions, []int32{2}) || f.Tenant != "importer" || f.Share < 0.9 {
		t.Fatal(asJSON(t, f))
	}
	if p.Firing[1].Alert != lag.AlertDominates {
		t.Fatal(asJSON(t, p.Firing))
	}
	hot := p.Partitions[2]
	// One look knows only that the import is older than 3 minutes.
	if hot.Lag != 5000 || hot.Delay < 3*time.Minute || hot.Delay > 6*time.Minute || !hot.DelayBound || hot.Class != lag.Hot {
		t.Fatal(asJSON(t, hot))
	}
	if !slices.Contains(e.Skipped, "for") {
		t.Fatalf("does not say what it skipped: %v", e.Skipped)
	}
}

// A backlog of 7 minutes is older than the 3 and younger than the 15 that one
// look asks for: that it may be 15 minutes old is no reason to call it behind.
func TestOnceDoesNotTakeABoundForAnAge(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	for p := range int32(4) {
		c.produce(p, "ordinary", 100, 7*time.Minute)
	}
	c.commit("billing", 0, 0, 0, 0)
	e := c.once(nil)
	for _, firing := range pool(t, e, "billing", lag.SharedPool).Firing {
		if firing.Alert == lag.AlertBehind {
			t.Error(asJSON(t, firing))
		}
	}
}

// A burst right after a quiet minute was not there a minute ago, and is not a
// minute old for that.
func TestOnceDoesNotTakeABurstForALateOne(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	for p := range int32(4) {
		c.produce(p, "ordinary", 100, 10*time.Minute)
	}
	c.produce(2, "importer", 5000, 3*time.Second)
	c.commit("billing", 100, 100, 100, 100)
	e := c.once(nil)
	p := pool(t, e, "billing", lag.SharedPool)
	if hot := p.Partitions[2]; hot.Lag != 5000 || hot.Delay > 10*time.Second || !hot.DelayBound {
		t.Error(asJSON(t, hot))
	}
	if e.Fires() {
		t.Error(asJSON(t, p.Firing))
	}
}

// A pool that is late as a whole has its worst partition somewhere too.
func TestTextShowsTheWorstPartitionOfAPoolThatIsBehind(t *testing.T) {
	t.Parallel()
	g := lagwatch.PoolEvaluation{Group: "billing", Topic: "orders", Pool: lag.SharedPool, State: "Stable", Members: 3}
	for p, waits := range []int64{5, 5, 12, 1, 1, 1, 0, 285} {
		g.Partitions = append(g.Partitions, lagwatch.PartitionEvaluation{
			Partition: int32(p), Known: true, Committed: true, Lag: waits, Class: lag.Behind,
		})
	}
	e := lagwatch.Evaluation{Groups: []lagwatch.PoolEvaluation{g, g}}
	var text strings.Builder
	if err := e.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	if want := "group billing: Stable, members: 3\n"; strings.Count(text.String(), want) != 1 {
		t.Errorf("no %q in\n%s", want, text.String())
	}
	var lags []string
	for line := range strings.Lines(text.String()) {
		if fields := strings.Fields(line); len(fields) > 7 && fields[7] == "BEHIND" {
			lags = append(lags, fields[4])
		}
	}
	if want := []string{"285", "12", "5", "5", "1"}; !slices.Equal(lags, slices.Concat(want, want)) {
		t.Errorf("lags %v, want %v in\n%s", lags, want, text.String())
	}
}

func TestOnceIsFineWhenNothingWaits(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	c.produce(0, "acme", 10, 0)
	c.commit("billing", 10, 0, 0, 0)
	e := c.once(nil)
	if e.Blind || e.Fires() || len(e.Groups) != 1 || e.Cluster == "" {
		t.Fatal(asJSON(t, e))
	}
}

// The fields that scripts read are those of the command line's contract.
func TestEvaluationJSON(t *testing.T) {
	t.Parallel()
	e := hotCluster(t).once(nil)
	var got struct {
		Groups []struct {
			Group, Topic, Pool string
			Baseline, Skew     *float64
			Partitions         []struct {
				Partition *int32
				Lag       *int64
				DelayS    *float64 `json:"delay_s"`
				Class     string
				Ratio     *float64
			}
			Firing []struct {
				Alert      string
				Partitions []int32
				Tenant     string
				Share      *float64
				Severity   string
			}
		}
	}
	if err := json.Unmarshal([]byte(asJSON(t, e)), &got); err != nil {
		t.Fatal(err)
	}
	g := got.Groups[0]
	if g.Group != "billing" || g.Topic != "orders" || g.Pool != "shared" || g.Baseline == nil || g.Skew == nil {
		t.Fatalf("%+v", g)
	}
	p, f := g.Partitions[2], g.Firing[0]
	if *p.Partition != 2 || *p.Lag != 5000 || p.DelayS == nil || p.Class != "HOT" || p.Ratio == nil {
		t.Fatalf("%+v", p)
	}
	if f.Alert != "partition_hot" || f.Partitions[0] != 2 || f.Tenant != "importer" || f.Share == nil || f.Severity != "critical" {
		t.Fatalf("%+v", f)
	}
}

func TestStoppedBrokerIsBlindness(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	c.broker.Close()
	for name, groups := range map[string][]string{"all groups": nil, "one group": {"billing"}} {
		e := c.once(func(cfg *lagwatch.Config) {
			cfg.Groups, cfg.SampleTimeout = groups, 600*time.Millisecond
		})
		requireNoHealth(t, e)
		if len(e.Errors) == 0 || e.Fires() {
			t.Errorf("%s: %s", name, asJSON(t, e))
		}
	}
}

func TestGroupThatDoesNotExistIsNotHealth(t *testing.T) {
	t.Parallel()
	e := newCluster(t, 1).once(func(cfg *lagwatch.Config) { cfg.Groups = []string{"billign"} })
	if !e.Blind || pool(t, e, "billign", "").State != "Dead" {
		t.Fatal(asJSON(t, e))
	}
}

func TestPatternsChooseGroupsAndTopics(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	c.commit("billing", 0)
	c.commit("audit", 0)
	e := c.once(func(cfg *lagwatch.Config) { cfg.Groups = []string{"b*"} })
	if len(e.Groups) != 1 || e.Groups[0].Group != "billing" {
		t.Fatal(asJSON(t, e))
	}
	e = c.once(func(cfg *lagwatch.Config) { cfg.Groups, cfg.Topics = []string{"b*"}, []string{"other"} })
	if len(e.Groups) != 1 || len(e.Groups[0].Partitions) != 0 {
		t.Fatal(asJSON(t, e))
	}
}

func TestPartitionsMissingFromAnAnswerAreUnknown(t *testing.T) {
	t.Parallel()
	c := hotCluster(t)
	c.broker.Cluster().ControlKey(int16(kmsg.ListOffsets), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.broker.Cluster().KeepControl()
		req := kreq.(*kmsg.ListOffsetsRequest)
		resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
		for _, rt := range req.Topics {
			t := kmsg.NewListOffsetsResponseTopic()
			t.Topic = rt.Topic
			for _, rp := range rt.Partitions {
				if rp.Partition == 2 {
					continue // not a word about it
				}
				p := kmsg.NewListOffsetsResponseTopicPartition()
				p.Partition, p.Offset = rp.Partition, 100
				if rp.Timestamp == -2 {
					p.Offset = 0
				}
				t.Partitions = append(t.Partitions, p)
			}
			resp.Topics = append(resp.Topics, t)
		}
		return resp, nil, true
	})
	e := c.once(nil)
	p := pool(t, e, "billing", lag.SharedPool)
	if !e.Blind || e.Unknown != 1 || p.Partitions[2].Known || p.Partitions[2].Class != lag.Unknown || !p.Partitions[1].Known {
		t.Fatal(asJSON(t, e))
	}
}

func TestErrorsOfItemsAreUnknown(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]kmsg.Key{
		"offset fetch": kmsg.OffsetFetch, "describe groups": kmsg.DescribeGroups, "list groups": kmsg.ListGroups,
		"metadata": kmsg.Metadata, "list offsets": kmsg.ListOffsets,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := hotCluster(t)
			c.broker.Cluster().ControlKey(int16(key), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
				c.broker.Cluster().KeepControl()
				resp := refusal(kreq)
				return resp, nil, resp != nil
			})
			e := c.once(func(cfg *lagwatch.Config) { cfg.Groups = []string{"billing", "b*"} })
			if !e.Blind || len(e.Errors) == 0 {
				t.Fatal(asJSON(t, e))
			}
		})
	}
}

// refusal answers a request with an authorization error for each item.
func refusal(kreq kmsg.Request) kmsg.Response {
	switch req := kreq.(type) {
	case *kmsg.OffsetFetchRequest:
		resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
		for _, g := range req.Groups {
			rg := kmsg.NewOffsetFetchResponseGroup()
			rg.Group, rg.ErrorCode = g.Group, kerr.GroupAuthorizationFailed.Code
			resp.Groups = append(resp.Groups, rg)
		}
		return resp
	case *kmsg.DescribeGroupsRequest:
		resp := req.ResponseKind().(*kmsg.DescribeGroupsResponse)
		for _, g := range req.Groups {
			rg := kmsg.NewDescribeGroupsResponseGroup()
			rg.Group, rg.ErrorCode = g, kerr.GroupAuthorizationFailed.Code
			resp.Groups = append(resp.Groups, rg)
		}
		return resp
	case *kmsg.ListGroupsRequest:
		resp := req.ResponseKind().(*kmsg.ListGroupsResponse)
		resp.ErrorCode = kerr.ClusterAuthorizationFailed.Code
		return resp
	case *kmsg.ListOffsetsRequest:
		resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
		for _, t := range req.Topics {
			rt := kmsg.NewListOffsetsResponseTopic()
			rt.Topic = t.Topic
			for _, p := range t.Partitions {
				rp := kmsg.NewListOffsetsResponseTopicPartition()
				rp.Partition, rp.ErrorCode = p.Partition, kerr.TopicAuthorizationFailed.Code
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		return resp
	case *kmsg.MetadataRequest:
		if len(req.Topics) == 0 {
			return nil // brokers alone
		}
		resp := req.ResponseKind().(*kmsg.MetadataResponse)
		for _, t := range req.Topics {
			rt := kmsg.NewMetadataResponseTopic()
			rt.Topic, rt.ErrorCode = t.Topic, kerr.TopicAuthorizationFailed.Code
			resp.Topics = append(resp.Topics, rt)
		}
		return resp
	}
	return nil
}

func TestConfigNamesTheField(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	for field, edit := range map[string]func(*lagwatch.Config){
		"KafkaOpts":     func(c *lagwatch.Config) { c.KafkaOpts = nil },
		"Groups":        func(c *lagwatch.Config) { c.Groups = []string{"["} },
		"Topics":        func(c *lagwatch.Config) { c.Topics = []string{""} },
		"ratio":         func(c *lagwatch.Config) { c.Rule = rule(func(r *lag.Rule) { r.Ratio = 1 }) },
		"interval":      func(c *lagwatch.Config) { c.Rule = &lag.Rule{} },
		"Overrides[0]":  func(c *lagwatch.Config) { c.Overrides = []lagwatch.Override{{Rule: &lag.Rule{}}} },
		"SampleTimeout": func(c *lagwatch.Config) { c.SampleTimeout = -1 },
	} {
		cfg := lagwatch.Config{KafkaOpts: c.client.Opts()}
		edit(&cfg)
		if _, err := lagwatch.New(cfg); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}
