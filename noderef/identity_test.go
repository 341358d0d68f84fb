package noderef

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/machinist-dev/machinist/contract"
)

func TestValidProviderID(t *testing.T) {
	cases := map[string]bool{
		"":                              false,
		" ":                             false,
		"/":                             false,
		"aws":                           true, // no scheme: opaque
		"aws:":                          false,
		"aws://":                        false,
		"aws:///":                       false,
		"aws:////":                      false,
		"vsphere:// ":                   false,
		"://":                           false,
		"aws:///eu-west-1a/i-0abc":      true,
		"kwok://node-1":                 true,
		"ocid1.instance.oc1.iad.abcdef": true,
		"azure:///subscriptions/s/resourceGroups/rg-(eu)/vm-(1)": true,
		"openstack:///a6ff8f8d-0bd6-4e0f-a2a1-0f2f2be":           true,
	}
	for id, want := range cases {
		if got := ValidProviderID(id); got != want {
			t.Errorf("ValidProviderID(%q) = %v, want %v", id, got, want)
		}
	}
}

func TestMayTouch(t *testing.T) {
	const id = "test://1"
	ref := contract.NodeRef{Name: "a", UID: "u1"}
	cases := []struct {
		name string
		node *corev1.Node
		ref  contract.NodeRef
		id   string
		want bool
	}{
		{"the recorded Node with the Machine's provider ID", newNode("a", "u1", id), ref, id, true},
		{"no Node", nil, ref, id, false},
		{"a Node that registered again under the same name", newNode("a", "u2", id), ref, id, false},
		{"a Node of the same name with another provider ID", newNode("a", "u1", "test://2"), ref, id, false},
		{"a reference that has no UID", newNode("a", "", id), contract.NodeRef{Name: "a"}, id, false},
		{"a reference whose name and UID are of two Nodes", newNode("b", "u1", id), ref, id, false},
		{"no reference", newNode("a", "u1", id), contract.NodeRef{}, id, false},
		{"empty provider IDs on both sides", newNode("a", "u1", ""), ref, "", false},
		{"degenerate provider IDs on both sides", newNode("a", "u1", "aws://"), ref, "aws://", false},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			if got := (Rules{}).MayTouch(tc.node, tc.ref, tc.id); got != tc.want {
				t.Errorf("MayTouch() = %v, want %v", got, tc.want)
			}
		})
	}
}
