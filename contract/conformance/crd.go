package conformance

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
)

// CheckCRD lints a CustomResourceDefinition of apiextensions.k8s.io/v1 against the contracts that its labels name. No finding means that
// every rule holds that a CRD can show. It judges every
// served API version that a contract label names by the contract of that label. A CRD without a label of a
// contract that Cluster API reads has only that finding. A release of Cluster API reads the highest version under
// the newest label that it knows, so that what the others lack is a SHOULD. It takes any JSON object, neither changes
// nor keeps it, and gives the same report for the same CRD.
func CheckCRD(crd *unstructured.Unstructured, role Role) Report {
	j := &judge{role: role}
	if crd == nil || crd.Object == nil {
		j.find(Must, "kind", nothing, "CustomResourceDefinition", "All resources: only what is defined by a CRD has contract labels")
		return j.report()
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
		j.judged = append(j.judged, Judged{APIVersion: c.version.name, Contract: c.contract})
		before := len(j.findings)
		j.fields(c)
		j.subresource(c.version)
		c.weigh(j.findings[before:])
	}
	return j.report()
}

// weigh makes a SHOULD of what is wrong in a version that no Cluster API reads, because its label names a higher one, or that only older
// releases read, because a newer label is there.
func (c claim) weigh(findings []Finding) {
	var why string
	switch {
	case c.read != "":
		why = "; Cluster API reads " + clip(c.read) + " and never " + clip(c.version.name) + ", which the label may no longer name"
	case c.newest.Contract != c.contract:
		why = fmt.Sprintf("; only Cluster API up to v1.10 reads contract %s; newer releases read %s by contract %s", c.contract,
			clip(c.newest.APIVersion), c.newest.Contract)
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
		j.expect("apiVersion", version, "apiextensions.k8s.io/v1", "All resources: Kubernetes 1.22 and later know no other version of CRDs")
		return false
	}
	return true
}

// naming judges what the CRD is called and where its objects live, and returns its name.
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
	if list := textAt(crd, "spec", "names", "listKind"); list != "" { // the API server fills in the right one
		j.expect("spec.names.listKind", list, kind+"List", "resource definition: readers derive the list's name from the kind's")
	}
	j.kindName(kind)
	return name
}

func (j *judge) kindName(kind string) {
	suffix := j.role.suffix()
	switch {
	case strings.HasSuffix(kind, suffix):
	case j.role.isTemplate() && !strings.HasSuffix(kind, "Template"):
		j.find(Must, "spec.names.kind", clip(kind), "a name that ends in "+suffix,
			"resource definition: a clone's kind is the template's without Template at its end")
	default:
		j.find(Should, "spec.names.kind", clip(kind), "a name that ends in "+suffix, "resource definition: the names that people know")
	}
}

// versionPath stands before the places of an API version.
func versionPath(v apiVersion) string { return "spec.versions[" + clip(v.name) + "]: " }

// fields judges the schema of one version by one contract.
func (j *judge) fields(c claim) {
	at := versionPath(c.version)
	if c.version.schema == nil {
		j.find(Must, at+"schema.openAPIV3Schema", nothing, typeObject, "All resources: a version without a schema cannot hold any field")
		return
	}
	places := placesOf(j.role, c.contract)
	if j.role == InfraMachinePool && c.contract == contract.V1Beta2 {
		places = j.poolFlags(c, at, places)
	}
	for _, p := range places {
		j.field(c, at, p)
	}
	if j.role.isTemplate() {
		j.templateMetadata(c, at, places)
	}
}

// templateMetadata finds a template whose labels and annotations are dropped: the contract's resource definition has both.
func (j *judge) templateMetadata(c claim, at string, places []place) {
	var lost []string
	for _, p := range places {
		if (p.Name == "Labels" || p.Name == "Annotations") && !c.version.keeps(p.main) {
			lost = append(lost, p.main.String())
		}
	}
	if len(lost) > 0 {
		j.find(Should, at+lost[0], nothing, "map of strings",
			fmt.Sprintf("%s contract %s, template resource definition: the API server drops %s, which users write for clones to have",
				j.role, c.contract, strings.Join(lost, " and ")))
	}
}

// poolFlags turns the two flags of a pool into what they are today. The page of contract v1beta2 asks for
// status.initialization.provisioned, and Cluster API up to v1.14 reads only status.ready, whatever the contract
// (kubernetes-sigs/cluster-api#14030). One of them is needed; who has one only is told about the other.
func (j *judge) poolFlags(c claim, at string, places []place) []place {
	index := func(name string) int { return slices.IndexFunc(places, func(p place) bool { return p.Name == name }) }
	main, fallback := &places[index(provisioned)], &places[index(provisioned+fallbackSuffix)]
	rule := j.ruleName(c.contract, *main)
	hasMain, hasFallback := c.version.keeps(main.main), c.version.keeps(fallback.main)
	switch {
	case hasMain && !hasFallback:
		j.find(Should, at+fallback.main.String(), nothing, fallback.shape.name, rule+
			": the contract asks for "+main.main.String()+" only, but Cluster API up to v1.14 reads this one of pools: set both")
	case hasFallback && !hasMain:
		main.level = ""
		j.find(Should, at+main.main.String(), nothing, main.shape.name, rule+
			": Cluster API takes "+fallback.main.String()+" for it until contract v1beta1 ends: set both")
	}
	return places
}

// field judges one place: there, not pruned, and of the type that readers expect. Of several paths one is enough, but each that
// is there must be in order.
func (j *judge) field(c claim, at string, p place) {
	rule := j.ruleName(c.contract, p)
	missing := true
	for _, path := range p.Paths {
		if strings.HasPrefix(path.String(), "metadata.annotations.") {
			missing = false // an annotation is text, and no schema speaks of it
			continue
		}
		n, what, holder := c.version.schema.walk(path.Segments())
		switch {
		case what == anything: // kept, whatever it is
		case holder != "":
			j.find(Must, at+path.String(), "a "+holder+" on the way to it", p.shape.name, rule+": a place that cannot exist cannot be read")
		case what == known:
			for _, f := range p.shape.compareTo(n, at+path.String()) {
				j.find(f.Level, f.Path, f.Found, f.Want, rule+": "+f.Rule)
			}
		default:
			continue
		}
		missing = false
	}
	if missing && p.level != "" {
		j.find(p.level, at+p.main.String(), nothing, p.shape.name,
			rule+": "+p.rule.why+", and the API server drops what the schema does not know")
	}
}

// subresource judges whether the status is written apart from the spec, which the contract's resource definitions show.
func (j *judge) subresource(v apiVersion) {
	if !j.role.isTemplate() && !v.hasStatus {
		j.find(Should, versionPath(v)+"subresources.status", nothing, typeObject,
			"resource definition: without it a write of the spec can overwrite the status that Machines wait for")
	}
}

func (j *judge) ruleName(v contract.Version, p place) string {
	return fmt.Sprintf("%s contract %s, %s", j.role, v, p.rule.name)
}

// textAt returns a text, "" when there is none.
func textAt(obj map[string]any, path ...string) string {
	raw, _, _ := unstructured.NestedFieldNoCopy(obj, path...)
	text, _ := raw.(string)
	return text
}
