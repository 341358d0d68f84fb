package machinepool

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/machinist-dev/machinist/contract"
)

// A backup may have been made before the provider reported the group, and a provider may change the form of its IDs: all these instances go
// with the pool, and their Nodes have to be found.
func TestInstancesInADeletion(t *testing.T) {
	for name, tc := range map[string]struct {
		known, listed []string
		provisioned   bool
		want          contract.Opt[[]string]
	}{
		"the group was never reported as provisioned": {listed: []string{"p://2", "p://1"}, want: contract.Some([]string{"p://1", "p://2"})},
		"the form has changed": {known: []string{"p://1"}, listed: []string{"p:///zone/1"}, provisioned: true,
			want: contract.Some([]string{"p:///zone/1", "p://1"})},
		"an instance has left":        {known: []string{"p://1", "p://2"}, listed: []string{"p://2"}, provisioned: true},
		"there are none any more":     {known: []string{"p://1"}, provisioned: true},
		"an ID that no pool can hold": {known: []string{"p://1"}, listed: []string{"p://" + strings.Repeat("x", maxProviderIDLength)}},
	} {
		t.Run(name, func(t *testing.T) {
			pool := contract.InfraMachinePoolState{ProviderIDList: tc.listed, HasProviderIDList: true, Provisioned: tc.provisioned}
			d := decideInfrastructure(infrastructureFacts{External: present(contract.V1Beta2), Pool: pool, Known: tc.known, Deleting: true})
			if diff := cmp.Diff(tc.want.Or(nil), d.IDs.Or(nil)); diff != "" || d.IDs.Found() != tc.want.Found() {
				t.Errorf("changed %v (-want +got):\n%s", d.IDs.Found(), diff)
			}
			if d.Provisioned != tc.provisioned {
				t.Errorf("provisioned %v", d.Provisioned)
			}
		})
	}
}
