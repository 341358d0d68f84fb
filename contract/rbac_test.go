package contract_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/machinist-dev/machinist/contract"
)

func rules(all ...rbacv1.PolicyRule) []rbacv1.PolicyRule { return all }

func rule(group string, resources []string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
}

func TestMergePolicyRules(t *testing.T) {
	t.Parallel()
	named := func(name, verb string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{"g"}, Resources: []string{"leases"}, ResourceNames: []string{name}, Verbs: []string{verb}}
	}
	for name, c := range map[string]struct{ have, want []rbacv1.PolicyRule }{
		"nothing": {},
		"verbs of a resource are put together": {
			rules(rule("", []string{"nodes"}, "patch"), rule("", []string{"nodes"}, "list", "watch")),
			rules(rule("", []string{"nodes"}, "list", "patch", "watch"))},
		"resources with equal verbs share a rule": {
			rules(rule("", []string{"pods", "nodes"}, "watch", "list"), rule("", []string{"namespaces"}, "list", "watch")),
			rules(rule("", []string{"namespaces", "nodes", "pods"}, "list", "watch"))},
		"groups have rules of their own": {
			rules(rule("b", []string{"x"}, "get"), rule("a", []string{"x"}, "get")),
			rules(rule("a", []string{"x"}, "get"), rule("b", []string{"x"}, "get"))},
		"what a wildcard covers is left out": {
			rules(rule("g", []string{"*"}, "get", "list"), rule("g", []string{"x"}, "get", "patch"), rule("*", []string{"x"}, "patch")),
			rules(rule("*", []string{"x"}, "patch"), rule("g", []string{"*"}, "get", "list"))},
		"a subresource is a resource": {
			rules(rule("g", []string{"x/status", "x"}, "patch")),
			rules(rule("g", []string{"x", "x/status"}, "patch"))},
		"names stay, unless all may be had": {
			rules(named("b", "get"), named("a", "get"), named("c", "update"), rule("g", []string{"leases"}, "update")),
			rules(rule("g", []string{"leases"}, "update"), rbacv1.PolicyRule{
				APIGroups: []string{"g"}, Resources: []string{"leases"}, ResourceNames: []string{"a", "b"}, Verbs: []string{"get"}})},
		"paths": {
			rules(rbacv1.PolicyRule{NonResourceURLs: []string{"/readyz", "/metrics"}, Verbs: []string{"get"}}),
			rules(rbacv1.PolicyRule{NonResourceURLs: []string{"/metrics", "/readyz"}, Verbs: []string{"get"}})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Empty(t, cmp.Diff(c.want, contract.MergePolicyRules(c.have)))
			slices.Reverse(c.have)
			require.Empty(t, cmp.Diff(c.want, contract.MergePolicyRules(c.have[:len(c.have)/2], c.have[len(c.have)/2:])))
		})
	}
}

func TestMergedRulesGrantTheSameInWhateverFormTheyCame(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a seed, so that a failure comes again
	some := func(from ...string) []string {
		var picked []string
		for _, s := range from {
			if random.IntN(3) == 0 {
				picked = append(picked, s)
			}
		}
		return picked
	}
	for range 500 {
		var have []rbacv1.PolicyRule
		for range 1 + random.IntN(5) {
			have = append(have, rbacv1.PolicyRule{APIGroups: some("", "g", "*"), Resources: some("x", "y", "x/status", "*"),
				ResourceNames: some("a", "b"), Verbs: some("get", "list", "*"), NonResourceURLs: some("/readyz")})
		}
		merged := contract.MergePolicyRules(have)
		require.Empty(t, cmp.Diff(granted(have), granted(merged)), "%v became %v", have, merged)
		require.Empty(t, cmp.Diff(merged, contract.MergePolicyRules(merged)), "merged again")
		random.Shuffle(len(have), func(i, j int) { have[i], have[j] = have[j], have[i] })
		require.Empty(t, cmp.Diff(merged, contract.MergePolicyRules(have[:1], have[1:])), "in another order")
	}
}

// granted asks of every request in a small world whether rules allow it, as the API server's RBAC authorizer does.
func granted(all []rbacv1.PolicyRule) []string {
	var allowed []string
	has := func(list []string, want, wildcard string) bool {
		return slices.Contains(list, want) || slices.Contains(list, wildcard)
	}
	for _, verb := range []string{"get", "list", "patch"} {
		if slices.ContainsFunc(all, func(r rbacv1.PolicyRule) bool {
			return has(r.Verbs, verb, "*") && slices.Contains(r.NonResourceURLs, "/readyz")
		}) {
			allowed = append(allowed, verb+" /readyz")
		}
		for _, group := range []string{"", "g", "h"} {
			for _, resource := range []string{"x", "y", "x/status"} {
				for _, name := range []string{"a", "b", "c"} {
					if slices.ContainsFunc(all, func(r rbacv1.PolicyRule) bool {
						return has(r.Verbs, verb, "*") && has(r.APIGroups, group, "*") && has(r.Resources, resource, "*") &&
							(len(r.ResourceNames) == 0 || slices.Contains(r.ResourceNames, name))
					}) {
						allowed = append(allowed, verb+" "+group+"/"+resource+" "+name)
					}
				}
			}
		}
	}
	return allowed
}
