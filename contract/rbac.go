package contract

import (
	"cmp"
	"maps"
	"reflect"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
)

// MergePolicyRules merges lists of RBAC rules, such as those of the packages of this library, into one without duplicates that grants the
// same. A rule covered by another one, also by a wildcard, is dropped; resources of a group with equal verbs share a rule; everything is
// sorted. Equal permissions give equal rules, whatever their order and form. The lists are not changed.
func MergePolicyRules(lists ...[]rbacv1.PolicyRule) []rbacv1.PolicyRule {
	rights := map[right]struct{}{}
	for _, list := range lists {
		for i := range list {
			for _, r := range rightsOf(&list[i]) {
				rights[r] = struct{}{}
			}
		}
	}
	for r := range rights {
		for other := range rights {
			if other != r && other.covers(r) {
				delete(rights, r)
				break
			}
		}
	}
	var rules []rbacv1.PolicyRule
	for _, r := range slices.SortedFunc(maps.Keys(rights), compareRights) {
		rules = append(rules, r.rule())
	}
	for _, list := range []func(*rbacv1.PolicyRule) *[]string{
		func(r *rbacv1.PolicyRule) *[]string { return &r.Verbs },
		func(r *rbacv1.PolicyRule) *[]string { return &r.Resources },
		func(r *rbacv1.PolicyRule) *[]string { return &r.ResourceNames },
		func(r *rbacv1.PolicyRule) *[]string { return &r.NonResourceURLs },
	} {
		rules = joined(rules, list)
	}
	slices.SortStableFunc(rules, func(a, b rbacv1.PolicyRule) int {
		return cmp.Or(slices.Compare(a.NonResourceURLs, b.NonResourceURLs), slices.Compare(a.APIGroups, b.APIGroups),
			slices.Compare(a.Resources, b.Resources), slices.Compare(a.ResourceNames, b.ResourceNames))
	})
	return rules
}

// joined merges rules that differ only in the given list, which has at least one entry.
func joined(rules []rbacv1.PolicyRule, list func(*rbacv1.PolicyRule) *[]string) []rbacv1.PolicyRule {
	var few []rbacv1.PolicyRule
	for _, rule := range rules {
		more := *list(&rule)
		at := slices.IndexFunc(few, func(other rbacv1.PolicyRule) bool {
			mine := rule
			if len(more) == 0 || len(*list(&other)) == 0 {
				return false
			}
			*list(&mine), *list(&other) = nil, nil
			return reflect.DeepEqual(mine, other)
		})
		if at < 0 {
			few = append(few, rule)
			continue
		}
		into := list(&few[at])
		*into = append(slices.Clip(*into), more...)
	}
	return few
}

// right is a single permission of a rule. name is empty for objects of any name, and url for a permission on resources.
type right struct{ url, group, name, resource, verb string }

func compareRights(a, b right) int {
	return cmp.Or(cmp.Compare(a.url, b.url), cmp.Compare(a.group, b.group), cmp.Compare(a.name, b.name),
		cmp.Compare(a.resource, b.resource), cmp.Compare(a.verb, b.verb))
}

// covers reports whether r includes other. Only the wildcards that RBAC supports count: for resources "*", and not "*/scale".
func (r right) covers(other right) bool {
	either := func(mine, theirs, all string) bool { return mine == theirs || mine == all }
	return r.url == other.url && either(r.group, other.group, rbacv1.APIGroupAll) && either(r.name, other.name, "") &&
		either(r.resource, other.resource, rbacv1.ResourceAll) && either(r.verb, other.verb, rbacv1.VerbAll)
}

func rightsOf(rule *rbacv1.PolicyRule) []right {
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	rights := make([]right, 0, len(rule.Verbs)*(len(rule.NonResourceURLs)+len(rule.APIGroups)*len(rule.Resources)*len(names)))
	for _, verb := range rule.Verbs {
		for _, url := range rule.NonResourceURLs {
			rights = append(rights, right{url: url, verb: verb})
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, name := range names {
					rights = append(rights, right{group: group, name: name, resource: resource, verb: verb})
				}
			}
		}
	}
	return rights
}

func (r right) rule() rbacv1.PolicyRule {
	rule := rbacv1.PolicyRule{Verbs: []string{r.verb}}
	if r.url != "" {
		rule.NonResourceURLs = []string{r.url}
		return rule
	}
	rule.APIGroups, rule.Resources = []string{r.group}, []string{r.resource}
	if r.name != "" {
		rule.ResourceNames = []string{r.name}
	}
	return rule
}
