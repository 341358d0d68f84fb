package contract

import (
	"cmp"
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
)

// MergePolicyRules joins lists of RBAC rules, such as those that the packages of this library say they need, into one that grants the
// same and says it once. What another rule covers, also by a wildcard, is left out; resources of a group with equal verbs share
// a rule; everything is sorted. So equal rights give equal rules, in whatever order and form they came. The lists
// are not changed.
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
	return rulesOf(slices.SortedFunc(maps.Keys(rights), compareRights))
}

// right is one thing that a rule grants. name is empty for objects of any name, and url for a right on resources.
type right struct{ url, group, name, resource, verb string }

func compareRights(a, b right) int {
	return cmp.Or(cmp.Compare(a.url, b.url), cmp.Compare(a.group, b.group), cmp.Compare(a.name, b.name),
		cmp.Compare(a.resource, b.resource), cmp.Compare(a.verb, b.verb))
}

// covers reports whether who has r has other too. Of wildcards only those that RBAC itself knows count: for resources "*", and not
// "*/scale".
func (r right) covers(other right) bool {
	either := func(mine, theirs, all string) bool { return mine == theirs || mine == all }
	return r.url == other.url && either(r.group, other.group, rbacv1.APIGroupAll) && either(r.name, other.name, "") &&
		either(r.resource, other.resource, rbacv1.ResourceAll) && either(r.verb, other.verb, rbacv1.VerbAll)
}

// place is the right without its verb.
func (r right) place() right {
	r.verb = ""
	return r
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

// rulesOf writes sorted rights as rules: first the verbs of a place are put together, then the places with equal verbs.
func rulesOf(rights []right) []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	for len(rights) > 0 {
		place := rights[0].place()
		var verbs []string
		for len(rights) > 0 && rights[0].place() == place {
			verbs = append(verbs, rights[0].verb)
			rights = rights[1:]
		}
		rules = addPlace(rules, place, verbs)
	}
	slices.SortStableFunc(rules, func(a, b rbacv1.PolicyRule) int {
		return cmp.Or(slices.Compare(a.NonResourceURLs, b.NonResourceURLs), slices.Compare(a.APIGroups, b.APIGroups),
			slices.Compare(a.Resources, b.Resources), slices.Compare(a.ResourceNames, b.ResourceNames))
	})
	return rules
}

// addPlace adds a place to a rule with the same verbs, or a rule of its own. Places come sorted.
func addPlace(rules []rbacv1.PolicyRule, place right, verbs []string) []rbacv1.PolicyRule {
	for i := range rules {
		rule := &rules[i]
		switch {
		case !slices.Equal(rule.Verbs, verbs) || (place.url == "") != (len(rule.NonResourceURLs) == 0):
		case place.url != "":
			rule.NonResourceURLs = append(rule.NonResourceURLs, place.url)
			return rules
		case rule.APIGroups[0] == place.group && slices.Equal(rule.ResourceNames, namesOf(place)):
			rule.Resources = append(rule.Resources, place.resource)
			return rules
		case rule.APIGroups[0] == place.group && len(rule.ResourceNames) > 0 && place.name != "" &&
			slices.Equal(rule.Resources, []string{place.resource}):
			rule.ResourceNames = append(rule.ResourceNames, place.name)
			return rules
		}
	}
	if place.url != "" {
		return append(rules, rbacv1.PolicyRule{Verbs: verbs, NonResourceURLs: []string{place.url}})
	}
	return append(rules, rbacv1.PolicyRule{
		Verbs: verbs, APIGroups: []string{place.group}, Resources: []string{place.resource}, ResourceNames: namesOf(place),
	})
}

func namesOf(place right) []string {
	if place.name == "" {
		return nil
	}
	return []string{place.name}
}
