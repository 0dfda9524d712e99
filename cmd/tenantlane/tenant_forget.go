package main

import (
	"encoding/hex"

	"github.com/spf13/cobra"

	"github.com/tenantlane/tenantlane/partitioner/routing"
	"github.com/tenantlane/tenantlane/rebalance/plan/picture"
)

type forgetJSON struct {
	Revision  uint64   `json:"revision"`
	Tenant    string   `json:"tenant"`
	TenantHex string   `json:"tenant_hex"`
	Topics    []string `json:"topics"`
}

func newTenantForgetCommand(e *env) *cobra.Command {
	var output outputFlags
	var f changeFlags
	var tenants hexFlags
	cmd := &cobra.Command{
		Use:   "forget NAME",
		Short: "Remove a tenant from every topic of the table",
		Long: "Removes the tenant's placement and tier from every topic of the table. It is for tenants that are\n" +
			"gone: one with live records that this would re-route is refused.",
		Example: "  tenantlane tenant forget acme-corp --table routing.yaml",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			tenant, err := tenants.tenant(args[0])
			if err != nil {
				return err
			}
			var topics []string
			_, after, err := f.change(cmd, args, func(_ tableStore, t *routing.Table) (*routing.Table, error) {
				topics = mentioning(t, string(tenant))
				if len(topics) == 0 {
					return nil, answerNo("the table says nothing of tenant %q", picture.Tenant(string(tenant)))
				}
				var edits []routing.Edit
				for _, topic := range topics {
					edits = append(edits, routing.ForgetTenant(topic, string(tenant)))
				}
				return t.Edit(edits...)
			})
			if after == nil {
				return err
			}
			text, _ := tenantText(tenant)
			answer := forgetJSON{after.Revision(), text, hex.EncodeToString(tenant), topics}
			printed := e.printForgotten(answer, output.json())
			if printed != nil {
				return printed
			}
			return err
		},
	}
	f.register(cmd.Flags())
	tenants.register(cmd.Flags())
	output.register(cmd.Flags())
	return cmd
}

func (e *env) printForgotten(a forgetJSON, asJSON bool) error {
	if asJSON {
		return e.printJSON(a)
	}
	return e.printf("%s is forgotten in %v; table revision %d\n", picture.Tenant(a.Tenant), a.Topics, a.Revision)
}

// mentioning lists the topics whose entry says something of a tenant.
func mentioning(table *routing.Table, tenant string) (topics []string) {
	spec := table.Spec()
	for _, name := range table.TopicNames() {
		_, placed := spec.Topics[name].Placements[tenant]
		_, tiered := spec.Topics[name].Tenants[tenant]
		if placed || tiered {
			topics = append(topics, name)
		}
	}
	return topics
}

// tenantOf is a placement's tenant as bytes in a string.
func tenantOf(p placementJSON) string {
	raw, err := hex.DecodeString(p.TenantHex)
	if err != nil {
		return p.Tenant
	}
	return string(raw)
}
