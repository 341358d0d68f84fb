package rights

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/machinist-dev/machinist/contract"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

// Asked is what a program asks for.
type Asked struct {
	// Cluster are the rules of its ClusterRole, which hold everywhere.
	Cluster []rbacv1.PolicyRule
	// Namespaces are the rules of its Roles, by namespace.
	Namespaces map[string][]rbacv1.PolicyRule
}

// Report is what became of rights.
type Report struct {
	// Requests is how many requests were looked at.
	Requests int
	// Denied are the requests that were answered 401 or 403.
	Denied cluster.AuditEvents
	// Unused are the rights that no request has used, such as "watch storage.k8s.io/volumeattachments", sorted. Those of a
	// Role end with "in" and its namespace, those for some names with "named" and the name.
	Unused []string
	// Elsewhere are requests to resources that no rule allows, and that were answered all the same: the user has rights from
	// somewhere else.
	Elsewhere cluster.AuditEvents
}

// Judge compares the requests of a program with what it asked for. Asked may hold rules in any form; every verb on every resource of
// them counts for itself.
func Judge(asked Asked, events cluster.AuditEvents) Report {
	rights := asked.rights()
	used := make([]bool, len(rights))
	report := Report{Requests: len(events)}
	for _, e := range events {
		if e.Code == http.StatusUnauthorized || e.Code == http.StatusForbidden {
			report.Denied = append(report.Denied, e)
			continue
		}
		allowed := false
		for i, r := range rights {
			if r.allows(e) {
				used[i], allowed = true, true
			}
		}
		if !allowed && e.Resource != "" && !selfService(e) {
			report.Elsewhere = append(report.Elsewhere, e)
		}
	}
	for i, r := range rights {
		if !used[i] {
			report.Unused = append(report.Unused, r.String())
		}
	}
	slices.Sort(report.Unused)
	return report
}

// Problems returns in sentences what is wrong, nothing when the rights were exactly enough. Excused are rights that need not be used,
// with the reason; one that was used after all, or was never asked for, is a problem too.
func (r Report) Problems(excused map[string]string) []string {
	var problems []string
	if len(r.Denied) > 0 {
		problems = append(problems, "rights are missing: "+r.Denied.String())
	}
	if len(r.Elsewhere) > 0 {
		problems = append(problems, "rights were used that were not asked for: "+r.Elsewhere.String())
	}
	for _, unused := range r.Unused {
		if _, known := excused[unused]; !known {
			problems = append(problems, fmt.Sprintf("the right to %s was not used in %d requests", unused, r.Requests))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(excused)) {
		if !slices.Contains(r.Unused, name) {
			problems = append(problems, fmt.Sprintf("%s is excused (%s), and was used or never asked for", name, excused[name]))
		}
	}
	return problems
}

// right is one verb on one resource.
type right struct{ verb, group, resource, name, namespace, url string }

func (a Asked) rights() []right {
	rights := rightsOf(a.Cluster, "")
	for _, namespace := range slices.Sorted(maps.Keys(a.Namespaces)) {
		rights = append(rights, rightsOf(a.Namespaces[namespace], namespace)...)
	}
	return rights
}

func rightsOf(rules []rbacv1.PolicyRule, namespace string) []right {
	var rights []right
	for _, rule := range contract.MergePolicyRules(rules) {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, verb := range rule.Verbs {
			for _, url := range rule.NonResourceURLs {
				rights = append(rights, right{verb: verb, url: url})
			}
			for _, resource := range rule.Resources {
				for _, name := range names {
					rights = append(rights, right{verb: verb, group: rule.APIGroups[0], resource: resource, name: name, namespace: namespace})
				}
			}
		}
	}
	return rights
}

// plain is the resource without its subresource, and sub that.
func (r right) plain() string {
	plain, _, _ := strings.Cut(r.resource, "/")
	return plain
}

func (r right) sub() string {
	_, sub, _ := strings.Cut(r.resource, "/")
	return sub
}

// String returns a right as Unused does.
func (r right) String() string {
	if r.url != "" {
		return r.verb + " " + r.url
	}
	text := r.verb + " " + strings.TrimPrefix(r.group+"/"+r.resource, "/")
	if r.name != "" {
		text += " named " + r.name
	}
	if r.namespace != "" {
		text += " in " + r.namespace
	}
	return text
}

func (r right) allows(e cluster.AuditEvent) bool {
	if !is(r.verb, e.Verb, rbacv1.VerbAll) && (r.verb != "list" || !streamsList(e)) {
		return false
	}
	if e.Resource == "" || r.url != "" {
		return e.Resource == "" && r.allowsPath(e)
	}
	resource := e.Resource
	if e.Subresource != "" {
		resource += "/" + e.Subresource
	}
	return is(r.group, e.Group, rbacv1.APIGroupAll) && is(r.resource, resource, rbacv1.ResourceAll) &&
		is(r.name, e.Name, "") && is(r.namespace, e.Namespace, "")
}

func is(mine, theirs, all string) bool { return mine == theirs || mine == all }

func (r right) allowsPath(e cluster.AuditEvent) bool {
	path, _, _ := strings.Cut(e.URI, "?")
	prefix, below := strings.CutSuffix(r.url, "*")
	return r.url != "" && (path == r.url || below && strings.HasPrefix(path, prefix))
}

// streamsList is true for a watch that begins with what is there.
func streamsList(e cluster.AuditEvent) bool {
	uri, err := url.Parse(e.URI)
	return err == nil && e.Verb == "watch" && uri.Query().Get("sendInitialEvents") == "true"
}

// selfService are the requests that every user may make about itself.
func selfService(e cluster.AuditEvent) bool {
	return (e.Group == "authorization.k8s.io" || e.Group == "authentication.k8s.io") && strings.HasPrefix(e.Resource, "self")
}
