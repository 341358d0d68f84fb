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
	all := machines().GroupResource()
	for name, tc := range map[string]struct {
		wiring guard.Wiring
		want   []rbacv1.PolicyRule
	}{
		"nothing": {guard.Wiring{Machines: all}, nil},
		"a gate":  {guard.Wiring{Machines: all, Gate: true}, []rbacv1.PolicyRule{rule(capi, "machines", "get")}},
		"a collector": {
			guard.Wiring{Machines: all, Collector: true, Owners: []schema.GroupResource{{Group: "x", Resource: "clouds"}}, Events: true},
			[]rbacv1.PolicyRule{rule(capi, "machines", "list"), rule("events.k8s.io", "events", "create", "patch"), rule("x", "clouds", "list")},
		},
	} {
		if diff := cmp.Diff(tc.want, guard.PolicyRules(tc.wiring)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
