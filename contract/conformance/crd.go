package conformance

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"github.com/machinist-dev/machinist/contract"
)

// CheckCRD lints a CustomResourceDefinition of apiextensions.k8s.io/v1 against the contracts in its labels. Without findings, every rule
// that a CRD can show is met. Each served API version in a contract label is checked against the contract of that label. A CRD without a
// label of a contract that Cluster API reads has only that finding. A release of Cluster API reads the highest version under the newest
// label that it supports, so problems of other versions are a SHOULD. CheckCRD accepts any JSON object, neither changes nor retains it, and
// is deterministic.
func CheckCRD(crd *unstructured.Unstructured, role Role) Report {
	j := judgeOf(role)
	if crd == nil {
		crd = &unstructured.Unstructured{}
	}
	if placesOf(role, contract.Versions()[0]) == nil {
		j.find(Must, "kind", string(cmp.Or(role, "no role")), "a role of the contract", "the caller chose a role that has no rules")
		return j.report()
	}
	if !j.isCRD(crd.Object) {
		return j.report()
	}
	name := j.naming(crd.Object)
	versions := versionsOf(crd.Object)
	for _, c := range j.labels(crd.Object, name, versions) {
		j.Judged = append(j.Judged, Judged{APIVersion: c.version.name, Contract: c.contract})
		before := len(j.Findings)
		j.fields(c)
		j.subresource(c.version)
		c.weigh(j.Findings[before:])
	}
	return j.report()
}

// weigh lowers findings to SHOULD for a version that no Cluster API reads, because its label lists a higher one, or that only older
// releases read, because there is a newer label.
func (c claim) weigh(findings []Finding) {
	var why string
	switch {
	case c.read != c.version.name:
		why = "; Cluster API reads " + c.read + " and never " + c.version.name + ", which the label may no longer name"
	case c.newest.Contract != c.contract:
		why = fmt.Sprintf("; only Cluster API up to v1.10 reads contract %s; newer releases read %s by contract %s", c.contract,
			c.newest.APIVersion, c.newest.Contract)
	default:
		return
	}
	for i := range findings {
		findings[i].Level, findings[i].Rule = Should, findings[i].Rule+why
	}
}

func (j *judge) isCRD(crd map[string]any) bool {
	const rule = "All resources: only what is defined by a CRD has contract labels"
	if kind := textAt(crd, "kind"); kind != "CustomResourceDefinition" {
		j.expect("kind", kind, "CustomResourceDefinition", rule)
		return false
	}
	if version := textAt(crd, "apiVersion"); version != "apiextensions.k8s.io/v1" {
		j.expect("apiVersion", version, "apiextensions.k8s.io/v1", "All resources: Kubernetes 1.22 and later have no other version of CRDs")
		return false
	}
	return true
}

// naming checks the names and the scope of the CRD, and returns its name.
func (j *judge) naming(crd map[string]any) string {
	name, group, kind := textAt(crd, "metadata", "name"), textAt(crd, "spec", "group"), textAt(crd, "spec", "names", "kind")
	if group == "" || kind == "" {
		j.find(Must, "spec", "no group or no kind", "group and names.kind", "All resources: TypeMeta: a kind has a group and a name")
		return name
	}
	wanted := contract.CRDName(schema.GroupKind{Group: group, Kind: kind})
	j.expect("metadata.name", name, wanted,
		"resource definition: Cluster API looks for the CRD by this name and never lists CRDs, so it does not see another")
	j.expect("spec.scope", textAt(crd, "spec", "scope"), "Namespaced",
		"All resources: scope: Cluster API looks for objects in the namespace of the Machine")
	if list := textAt(crd, "spec", "names", "listKind"); list != "" { // the default of the API server is right
		j.expect("spec.names.listKind", list, kind+"List", "resource definition: readers derive the list's name from the kind's")
	}
	j.kindName(kind)
	return name
}

func (j *judge) kindName(kind string) {
	suffix := j.Role.suffix()
	if strings.HasSuffix(kind, suffix) {
		return
	}
	level, rule := Should, "the usual names"
	if j.Role.isTemplate() && !strings.HasSuffix(kind, "Template") {
		level, rule = Must, "a clone's kind is the template's without Template at its end"
	}
	j.find(level, "spec.names.kind", kind, "a name that ends in "+suffix, "resource definition: "+rule)
}

// versionPath returns the prefix of paths in an API version.
func versionPath(v apiVersion) string { return "spec.versions[" + v.name + "]: " }

// fields checks the schema of one version against one contract.
func (j *judge) fields(c claim) {
	at := versionPath(c.version)
	if c.version.schema == nil {
		j.find(Must, at+"schema.openAPIV3Schema", nothing, typeObject, "All resources: a version without a schema cannot hold any field")
		return
	}
	places := placesOf(j.Role, c.contract)
	if j.Role == InfraMachinePool && c.contract == contract.V1Beta2 {
		places = j.poolFlags(c, at, places)
	}
	for _, p := range places {
		j.field(c, at, p)
	}
	if j.Role.isTemplate() {
		j.templateMetadata(c, at, places)
	}
}

// templateMetadata finds a template whose labels and annotations are pruned: the contract's resource definition has both.
func (j *judge) templateMetadata(c claim, at string, places []place) {
	var lost []string
	for _, p := range places {
		if (p.Name == "Labels" || p.Name == "Annotations") && !c.version.keeps(p.main) {
			lost = append(lost, p.main.String())
		}
	}
	if len(lost) > 0 {
		j.find(Should, at+lost[0], nothing, "map of strings", j.about(c.contract, "template resource definition")+
			"the API server drops "+strings.Join(lost, " and ")+", which users write for clones to have")
	}
}

// poolFlags adapts the rules for the two flags of a pool to current releases. The page of contract v1beta2 requires
// status.initialization.provisioned, but Cluster API up to v1.14 reads only status.ready, whatever the contract
// (kubernetes-sigs/cluster-api#14030). One flag is required; a missing second one is a recommendation.
func (j *judge) poolFlags(c claim, at string, places []place) []place {
	index := func(name string) int { return slices.IndexFunc(places, func(p place) bool { return p.Name == name }) }
	main, fallback := &places[index(provisioned)], &places[index(provisioned+fallbackSuffix)]
	rule := j.about(c.contract, main.rule.name)
	hasMain, hasFallback := c.version.keeps(main.main), c.version.keeps(fallback.main)
	switch {
	case hasMain && !hasFallback:
		j.find(Should, at+fallback.main.String(), nothing, fallback.shape.name, rule+
			"the contract asks for "+main.main.String()+" only, but Cluster API up to v1.14 reads this one of pools: set both")
	case hasFallback && !hasMain:
		main.Need = ""
		j.find(Should, at+main.main.String(), nothing, main.shape.name, rule+
			"Cluster API takes "+fallback.main.String()+" for it until contract v1beta1 ends: set both")
	}
	return places
}

// field checks that a field exists, is not pruned, and has the type that readers expect. Of several paths one is enough, but all existing
// ones must be valid.
func (j *judge) field(c claim, at string, p place) {
	rule := j.about(c.contract, p.rule.name)
	missing := true
	for _, path := range p.Paths {
		n, what, holder := c.version.schema.walk(path.Segments())
		switch {
		case what == anything: // any type is stored
		case holder != "":
			j.find(Must, at+path.String(), "a "+holder+" on the way to it", p.shape.name, rule+"a place that cannot exist cannot be read")
		case what == known:
			for _, f := range p.shape.compareTo(n, at+path.String()) {
				j.find(f.Level, f.Path, f.Found, f.Want, rule+f.Rule)
			}
		default:
			continue
		}
		missing = false
	}
	if missing && (p.Need == Must || p.Need == Should) {
		j.find(p.Need, at+p.main.String(), nothing, p.shape.name,
			rule+p.rule.why+", and the API server drops what the schema lacks")
	}
}

// subresource checks that the status is a subresource, as in the contract's resource definitions.
func (j *judge) subresource(v apiVersion) {
	if !j.Role.isTemplate() && !v.hasStatus {
		j.find(Should, versionPath(v)+"subresources.status", nothing, typeObject,
			"resource definition: without it a write of the spec can overwrite the status that Machines wait for")
	}
}

func textAt(obj map[string]any, path ...string) string {
	text, _, _ := unstructured.NestedString(obj, path...)
	return text
}

// claim is an API version in a contract label.
type claim struct {
	contract contract.Version
	version  apiVersion
	// read is the highest version of the label, which Cluster API reads instead of the others.
	read string
	// newest is the version that Cluster API reads by the newest label.
	newest contract.Resolved
}

const ruleLabels = "API version labels: "

// labels checks the contract labels and returns their claims, newest contract and highest API version first.
func (j *judge) labels(crd map[string]any, name string, versions []apiVersion) []claim {
	labels := j.labelTexts(crd)
	resolved, err := contract.Resolve(name, labels)
	if err != nil {
		j.unlabelled(err, labels)
		return nil
	}
	return j.claims(labels, versions, resolved)
}

// labelTexts returns the labels that are texts, and reports contract labels of other types.
func (j *judge) labelTexts(crd map[string]any) map[string]string {
	texts := map[string]string{}
	for _, v := range contract.AllVersions() {
		text, found, err := contract.At[string]("metadata", "labels", v.Label()).Get(crd)
		e, wrong := errors.AsType[*contract.FieldError](err)
		if found || wrong && e.Got == "null" { // null in a map of texts
			texts[v.Label()] = text
			continue
		}
		if wrong {
			path := labelPath(v.Label())
			if len(e.Path.Segments()) < 3 {
				path = e.Path.String() // the parent of the labels
			}
			j.find(Must, path, e.Got, e.Want, ruleLabels+"a label is text")
		}
	}
	return texts
}

func labelPath(label string) string { return "metadata.labels[" + label + "]" }

// unlabelled reports that no label is usable.
func (j *judge) unlabelled(err error, labels map[string]string) {
	e, ok := errors.AsType[*contract.ResolveError](err)
	if !ok {
		return // Resolve returns no other type
	}
	found := nothing
	if value, there := labels[e.Label]; there {
		found = fmt.Sprintf("%q", value)
	}
	j.find(Must, labelPath(e.Label), found, "the API versions that fulfil the contract, such as v1beta1 or v1beta1_v1beta2",
		ruleLabels+"without them Cluster API cannot choose a version; "+e.Remedy+
			"; if a kustomization sets them, lint what kustomize build prints")
}

func (j *judge) claims(labels map[string]string, versions []apiVersion, read contract.Resolved) []claim {
	var claims []claim
	for _, c := range contract.Versions() {
		value, there := labels[c.Label()]
		names := listed(value)
		if there && len(names) == 0 {
			j.find(Should, labelPath(c.Label()), fmt.Sprintf("%q", value), "the API versions that fulfil the contract, or no such label",
				ruleLabels+"an empty label is passed over")
		}
		highest, _ := contract.Resolve("", labels, c) // empty when the label lists no API version
		for _, name := range names {
			level, why := Should, "Cluster API reads "+read.APIVersion+" and never looks for this one, which the label may no longer name"
			if c == read.Contract && name == read.APIVersion {
				level, why = Must, "Cluster API reads the highest version that the newest label names, whether it exists or not"
			}
			if v, ok := j.available(c, name, versions, level, why); ok {
				claims = append(claims, claim{contract: c, version: v, read: cmp.Or(highest.APIVersion, name), newest: read})
			}
		}
	}
	return claims
}

// available returns the version of a CRD that a label lists, and reports a version that is missing or not served.
func (j *judge) available(c contract.Version, name string, versions []apiVersion, level contract.Need, why string) (apiVersion, bool) {
	i := slices.IndexFunc(versions, func(v apiVersion) bool { return v.name == name })
	what := ", which spec.versions does not have"
	if i >= 0 && versions[i].served {
		return versions[i], true
	} else if i >= 0 {
		what = ", which is not served"
	}
	j.find(level, labelPath(c.Label()), name+what, "one of "+servedNames(versions), ruleLabels+why)
	return apiVersion{}, false
}

func servedNames(versions []apiVersion) string {
	var names []string
	for _, v := range versions {
		if v.served {
			names = append(names, v.name)
		}
	}
	return cmp.Or(strings.Join(names, ", "), "the served versions, of which there is none")
}

// listed returns the names in a label's value without duplicates, highest first.
func listed(value string) []string {
	names := strings.FieldsFunc(value, func(r rune) bool { return r == '_' })
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(-version.CompareKubeAwareVersionStrings(a, b), cmp.Compare(a, b))
	})
	return slices.Compact(names)
}
