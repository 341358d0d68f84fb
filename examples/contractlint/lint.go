package main

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/conformance"
)

// result is what is printed.
type result struct {
	Checked []checked `json:"checked"`
	Skipped []skipped `json:"skipped"`
	// Questions are CRDs whose role a person has to say.
	Questions []skipped `json:"questions"`
	Warnings  []string  `json:"warnings"`
	Must      int       `json:"must"`
	Should    int       `json:"should"`
}

// checked is a CRD or an object that has a role.
type checked struct {
	// Name is the CRD's, or kind, namespace and name of an object.
	Name   string `json:"name"`
	Source string `json:"source"`
	// As is the role that it was judged by.
	As string `json:"role"`
	// Note says what the reader must know about how it was judged.
	Note string `json:"note,omitempty"`
	conformance.Report
}

// skipped is a CRD or an object that was not judged.
type skipped struct {
	Name   string `json:"name"`
	Source string `json:"source"`
	Reason string `json:"reason"`
}

// kinds are the CRDs of the input.
type kinds map[schema.GroupKind]*document

func lint(in *input, o options) result {
	r := result{Checked: []checked{}, Skipped: []skipped{}, Questions: []skipped{}, Warnings: append([]string{}, in.warnings...)}
	crds := kinds{}
	for _, d := range in.documents {
		if known := crds[definedBy(d)]; d.isCRD() && (known == nil || !labelled(*known)) {
			crds[definedBy(d)] = &d
		}
	}
	for _, d := range in.documents {
		if d.isCRD() {
			r.crd(d, o)
		} else {
			r.object(d, crds, o)
		}
	}
	for _, c := range r.Checked {
		for _, f := range c.Findings {
			switch f.Level {
			case conformance.Must:
				r.Must++
			case conformance.Should:
				r.Should++
			}
		}
	}
	return r
}

// definedBy returns the kind that a CRD defines.
func definedBy(d document) schema.GroupKind {
	group, _, _ := unstructured.NestedString(d.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(d.Object, "spec", "names", "kind")
	return schema.GroupKind{Group: group, Kind: kind}
}

// labelled reports whether a CRD has a label of any contract.
func labelled(d document) bool {
	return slices.ContainsFunc(contract.AllVersions(), func(v contract.Version) bool {
		_, found, _ := unstructured.NestedFieldNoCopy(d.Object, "metadata", "labels", v.Label())
		return found
	})
}

func (r *result) crd(d document, o options) {
	gk := definedBy(d)
	if d.searched && gk.Group == "" {
		r.skip(d, d.GetName(), "it has no group: a patch and not a whole CustomResourceDefinition")
		return
	}
	role, question := o.roles.tell(gk, &d)
	switch {
	case question:
		r.Questions = note(r.Questions, d, d.GetName(), fmt.Sprintf(
			"%s is called like an object of role %s and has none of its fields: is it one? Say -role %s=%s, or -role %s=none",
			gk.Kind, role, gk.Kind, role, gk.Kind))
		return
	case role == 0:
		r.skip(d, d.GetName(), fmt.Sprintf("%s is no kind that a Machine or a MachinePool reads, by its group and name", gk.Kind))
		return
	}
	c := checked{Name: d.GetName(), Source: d.source(), As: role.String(), Report: conformance.InspectCRD(d.Unstructured, role)}
	if !labelled(d) {
		c.Note = "no contract label: if a kustomization sets it, run kustomize build on its folder and pipe the output to contractlint -"
	}
	r.Checked = append(r.Checked, c)
}

// tell returns the role of a kind, zero when it has none: what a person says, or a guess by its group and name. A guess that
// nothing in the kind's CRD bears out is a question. The CRD is nil when it is not in the input.
func (r *roles) tell(gk schema.GroupKind, crd *document) (role conformance.Role, question bool) {
	if role, said := r.of(gk); said {
		return role, false
	}
	role, ok := conformance.RoleOf(gk, crd != nil && labelled(*crd))
	return role, ok && crd != nil && !conformance.Resembles(crd.Unstructured, role)
}

// object judges an object of a provider. Of objects that no Machine reads, only those of providers' groups are listed.
func (r *result) object(d document, crds kinds, o options) {
	gvk := d.GroupVersionKind()
	crd := crds[gvk.GroupKind()]
	name := nameOf(d)
	role, question := o.roles.tell(gvk.GroupKind(), crd)
	_, said := o.roles.of(gvk.GroupKind())
	switch {
	case question:
		r.skip(d, name, "the role of its kind is a question")
	case role == 0 && said:
		r.skip(d, name, "its kind is said to have no role")
	case role == 0:
	case crd != nil && labelled(*crd):
		r.labelled(d, name, *crd, role)
	default:
		report, note := bestFit(d.Unstructured, role, o.contract)
		r.Checked = append(r.Checked, checked{Name: name, Source: d.source(), As: role.String(), Note: note, Report: report})
	}
}

// labelled judges an object by the labels of its CRD.
func (r *result) labelled(d document, name string, crd document, role conformance.Role) {
	labels, _, _ := unstructured.NestedStringMap(crd.Object, "metadata", "labels")
	at := d.GroupVersionKind().Version
	version, err := contract.VersionOf(crd.GetName(), labels, at)
	if err != nil {
		r.skip(d, name, err.Error())
		return
	}
	if read, err := contract.Resolve(crd.GetName(), labels, version); err == nil && read.APIVersion != at {
		r.skip(d, name, fmt.Sprintf("Cluster API reads objects of this kind at %s, and not at %s", read.APIVersion, at))
		return
	}
	report := conformance.InspectObject(d.Unstructured, role, version)
	r.Checked = append(r.Checked, checked{Name: name, Source: d.source(), As: role.String(), Report: report})
}

// nameOf returns kind, namespace and name of an object.
func nameOf(d document) string {
	if d.GetNamespace() == "" {
		return d.GetKind() + " " + d.GetName()
	}
	return d.GetKind() + " " + d.GetNamespace() + "/" + d.GetName()
}

// bestFit judges an object by the contract whose flag it sets, and without one by the contract that it breaks least, of
// several the newest, when -contract does not say which it is.
func bestFit(obj *unstructured.Unstructured, role conformance.Role, wanted contract.Version) (conformance.Report, string) {
	if wanted != "" {
		return conformance.InspectObject(obj, role, wanted), ""
	}
	var best conformance.Report
	for i, v := range contract.Versions() {
		report := conformance.InspectObject(obj, role, v)
		if done, _, err := doneFlag(role, v).Get(obj.Object); err == nil && done {
			best = report
			break
		}
		if i == 0 || len(report.Findings) < len(best.Findings) {
			best = report
		}
	}
	return best, "its CRD is not in the input: judged by the contract that fits best; say -contract to choose"
}

// doneFlag is where a contract has objects of a role say that they are done; templates never say it.
func doneFlag(role conformance.Role, v contract.Version) contract.Field[bool] {
	switch role {
	case conformance.InfraMachine:
		return contract.InfraMachine(v).Provisioned
	case conformance.BootstrapConfig:
		return contract.BootstrapConfig(v).DataSecretCreated
	case conformance.InfraMachinePool:
		return contract.InfraMachinePool(v).Provisioned
	default:
		return contract.Field[bool]{}
	}
}

func (r *result) skip(d document, name, reason string) { r.Skipped = note(r.Skipped, d, name, reason) }

// note adds what is not in the list yet: a file may be given twice.
func note(list []skipped, d document, name, reason string) []skipped {
	if slices.ContainsFunc(list, func(s skipped) bool { return s.Name == name && s.Source == d.source() }) {
		return list
	}
	return append(list, skipped{Name: name, Source: d.source(), Reason: reason})
}
