package guard_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/machineset/guard"
)

func TestPolicyRulesAreThoseOfWhatIsUsed(t *testing.T) {
	t.Parallel()
	rule := func(group, resources string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: strings.Split(resources, ","), Verbs: verbs}
	}
	const capi = "cluster.x-k8s.io"
	kinds := clusterAPI()
	for name, tc := range map[string]struct {
		wiring guard.Wiring
		want   []rbacv1.PolicyRule
	}{
		"nothing": {guard.Wiring{Kinds: kinds}, nil},
		"a gate":  {guard.Wiring{Kinds: kinds, Gate: true}, []rbacv1.PolicyRule{rule(capi, "machines", "get")}},
		"a collector": {
			guard.Wiring{Kinds: kinds, Collector: true, Owners: []schema.GroupResource{{Group: "x", Resource: "clouds"}}, Events: true},
			[]rbacv1.PolicyRule{rule(capi, "machines", "list"), rule("events.k8s.io", "events", "create", "patch"), rule("x", "clouds", "list")},
		},
		"a freezer": {guard.Wiring{Kinds: kinds, Freezer: true}, []rbacv1.PolicyRule{
			rule(capi, "machinedeployments,machinesets", "list", "patch", "watch"),
			rule(capi, "machinedeployments/status,machinesets/status", "patch"), rule(capi, "machines", "list", "watch"),
		}},
	} {
		if diff := cmp.Diff(tc.want, guard.PolicyRules(tc.wiring)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
