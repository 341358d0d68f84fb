package fake

import (
	"encoding/json"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
)

// discover answers discovery requests, which REST mappers need. The caller holds the lock.
func (s *Store) discover(path string) ([]byte, bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	var answer any
	switch {
	case path == "/version" || path == "/version/":
		answer = version.Info{Major: "1", Minor: "36", GitVersion: "v1.36.3"}
	case len(parts) == 1 && parts[0] == "api":
		answer = metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}
	case len(parts) == 1 && parts[0] == "apis":
		answer = metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: s.groups()}
	case len(parts) == 2 && parts[0] == "apis":
		groups := s.groups()
		i := slices.IndexFunc(groups, func(g metav1.APIGroup) bool { return g.Name == parts[1] })
		if i < 0 {
			return nil, false
		}
		groups[i].TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
		answer = groups[i]
	case len(parts) == 2 && parts[0] == "api":
		return s.resources(schema.GroupVersion{Version: parts[1]})
	case len(parts) == 3 && parts[0] == "apis":
		return s.resources(schema.GroupVersion{Group: parts[1], Version: parts[2]})
	default:
		return nil, false
	}
	body, _ := json.Marshal(answer) // plain values
	return body, true
}

func (s *Store) groups() []metav1.APIGroup {
	versions := map[string][]string{}
	for gvr := range s.registry.views {
		if gvr.Group != "" && !slices.Contains(versions[gvr.Group], gvr.Version) {
			versions[gvr.Group] = append(versions[gvr.Group], gvr.Version)
		}
	}
	var out []metav1.APIGroup
	for name, found := range versions {
		slices.SortFunc(found, byStability)
		g := metav1.APIGroup{Name: name}
		for _, v := range found {
			gv := schema.GroupVersion{Group: name, Version: v}
			g.Versions = append(g.Versions, metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: v})
		}
		g.PreferredVersion = g.Versions[0]
		out = append(out, g)
	}
	slices.SortFunc(out, func(a, b metav1.APIGroup) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// byStability orders v2, v1, v1beta2, v1beta1, v1alpha1.
func byStability(a, b string) int { return -version.CompareKubeAwareVersionStrings(a, b) }

func (s *Store) resources(gv schema.GroupVersion) ([]byte, bool) {
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv.String()}
	add := func(name string, v *view, kind string, verbs ...string) {
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name: name, SingularName: strings.ToLower(v.Kind), Namespaced: v.namespaced, Kind: kind, Verbs: verbs,
		})
	}
	for gvr, v := range s.registry.views {
		if gvr.GroupVersion() != gv {
			continue
		}
		add(gvr.Resource, v, v.gvk.Kind, "create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
		if v.status {
			add(gvr.Resource+"/status", v, v.gvk.Kind, "get", "patch", "update")
		}
		if v.GroupKind == podKind {
			add("pods/binding", v, "Binding", "create")
			add("pods/eviction", v, "Eviction", "create")
			last := &list.APIResources[len(list.APIResources)-1]
			last.Group, last.Version = "policy", "v1"
		}
	}
	if len(list.APIResources) == 0 {
		return nil, false
	}
	slices.SortFunc(list.APIResources, func(a, b metav1.APIResource) int { return strings.Compare(a.Name, b.Name) })
	body, _ := json.Marshal(list) // plain values
	return body, true
}
