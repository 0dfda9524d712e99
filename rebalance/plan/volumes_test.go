package plan_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantlane/tenantlane/rebalance/plan"
)

func TestReadVolumes(t *testing.T) {
	tests := []struct {
		name, in string
		hex      bool
		want     []plan.Volume
		fails    string
	}{
		{name: "volumes, sorted and added up", in: "a\t1\nb\t2.5\r\n\na\t1\n", want: []plan.Volume{{Tenant: "b", Volume: 2.5}, {Tenant: "a", Volume: 2}}},
		{name: "keys, repeats count", in: "a\nb\na\n", want: []plan.Volume{{Tenant: "a", Volume: 2}, {Tenant: "b", Volume: 1}}},
		{name: "a tab in a tenant", in: "a\tb\t3", want: []plan.Volume{{Tenant: "a\tb", Volume: 3}}},
		{name: "hexadecimal", in: "00ff\t3", hex: true, want: []plan.Volume{{Tenant: "\x00\xff", Volume: 3}}},
		{name: "not hexadecimal", in: "a\nxyz\t3", hex: true, fails: "line 1: tenant \"a\" is not hexadecimal"},
		{name: "not a number", in: "a\t1\nb\tmany", fails: `line 2: volume "many" of tenant "b"`},
		{name: "negative", in: "a\t-1", fails: "line 1"},
		{name: "infinite", in: "a\tInf", fails: "line 1"},
		{name: "not any number", in: "a\tNaN", fails: "line 1"},
		{name: "more than a float holds", in: "a\t1e308\na\t1e308", fails: "line 2"},
		{name: "no tenant", in: "\t4", fails: "line 1: the tenant is empty"},
		{name: "nothing", in: "\n\n", fails: "no tenant"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := plan.ReadVolumes(strings.NewReader(test.in), test.hex)
			if test.fails != "" {
				if err == nil || !strings.Contains(err.Error(), test.fails) {
					t.Fatalf("error %v, want %q in it", err, test.fails)
				}
				return
			}
			if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
				t.Fatalf("error %v, volumes (-want +got):\n%s", err, diff)
			}
		})
	}
}

// FuzzReadVolumes holds that what is read is whole, and reads the same when written again.
func FuzzReadVolumes(f *testing.F) {
	f.Add([]byte("a\t1\nb\t2.5\na\n"), false)
	f.Add([]byte("00ff\t1e3\n"), true)
	f.Add([]byte("\t\t\x00\t7\r\n"), false)
	f.Fuzz(func(t *testing.T, in []byte, hexTenants bool) {
		volumes, err := plan.ReadVolumes(bytes.NewReader(in), hexTenants)
		if err != nil {
			return
		}
		var again bytes.Buffer
		for i, v := range volumes {
			if v.Tenant == "" || !(v.Volume >= 0) || i > 0 && volumes[i-1].Volume < v.Volume {
				t.Fatalf("volume %d is %+v after %+v", i, v, volumes[max(i-1, 0)])
			}
			fmt.Fprintf(&again, "%x\t%v\n", v.Tenant, v.Volume)
		}
		twice, err := plan.ReadVolumes(&again, true)
		if diff := cmp.Diff(volumes, twice); err != nil || diff != "" {
			t.Fatalf("error %v, written and read again (-want +got):\n%s", err, diff)
		}
	})
}
