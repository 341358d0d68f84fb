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
	Checked  []checked `json:"checked"`
	Skipped  []skipped `json:"skipped"`
	Warnings []string  `json:"warnings"`
	Must     int       `json:"must"`
	Should   int       `json:"should"`
}

// checked is a CRD or an object that has a role.
type checked struct {
	// Name is the CRD's, or kind, namespace and name of an object.
	Name   string `json:"name"`
	Source string `json:"source"`
	conformance.Report
}

// skipped is a CRD or an object that was not judged.
type skipped struct {
	Name   string `json:"name"`
	Source string `json:"source"`
	Reason string `json:"reason"`
}

func lint(in *input, o options) result {
	r := result{Checked: []checked{}, Skipped: []skipped{}, Warnings: append([]string{}, in.warnings...)}
	crds := map[schema.GroupKind]*document{}
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
			if f.Level == conformance.Must {
				r.Must++
			}
			if f.Level == conformance.Should {
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
	role, doubtful := o.roles.guess(gk, &d)
	switch {
	case doubtful:
		r.skip(d, d.GetName(), fmt.Sprintf("%s is called like an object of role %s and has none of its fields: to judge it, give -role %s=%s",
			gk.Kind, role, gk.Kind, role))
		return
	case role == "":
		r.skip(d, d.GetName(), fmt.Sprintf("%s is no kind that a Machine or a MachinePool reads, by its group and name", gk.Kind))
		return
	}
	r.Checked = append(r.Checked, checked{Name: d.GetName(), Source: d.source(), Report: conformance.CheckCRD(d.Unstructured, role)})
}

// guess returns the role of a kind, zero when it has none: what a person gives, or a guess by its group and name. A guess that
// nothing in the kind's CRD bears out is doubtful. The CRD is nil when it is not in the input.
func (r *roles) guess(gk schema.GroupKind, crd *document) (role conformance.Role, doubtful bool) {
	if role, given := r.of(gk); given {
		return role, false
	}
	role, ok := conformance.RoleOf(gk, crd != nil && labelled(*crd))
	return role, ok && crd != nil && !conformance.Resembles(crd.Unstructured, role)
}

// object judges an object of a provider. Of objects that no Machine reads, only those of providers' groups are listed.
func (r *result) object(d document, crds map[schema.GroupKind]*document, o options) {
	gvk := d.GroupVersionKind()
	crd := crds[gvk.GroupKind()]
	name := nameOf(d)
	role, doubtful := o.roles.guess(gvk.GroupKind(), crd)
	_, given := o.roles.of(gvk.GroupKind())
	switch {
	case doubtful:
		r.skip(d, name, "the role of its kind is doubtful")
	case role == "" && given:
		r.skip(d, name, "its kind is given no role")
	case role == "":
	case crd != nil && labelled(*crd):
		r.labelled(d, name, *crd, role)
	case o.contract == "":
		r.skip(d, name, "no CRD with a contract label in the input names the contract to judge it by: add the CRD, or give -contract")
	default:
		report := conformance.CheckObject(d.Unstructured, role, o.contract)
		r.Checked = append(r.Checked, checked{Name: name, Source: d.source(), Report: report})
	}
}

// labelled judges an object by the labels of its CRD.
func (r *result) labelled(d document, name string, crd document, role conformance.Role) {
	labels, _, _ := unstructured.NestedStringMap(crd.Object, "metadata", "labels")
	at := d.GroupVersionKind().Version
	for _, version := range contract.Versions() { // each label is read by some release of Cluster API
		if read, err := contract.Resolve(crd.GetName(), labels, version); err == nil && read.APIVersion == at {
			report := conformance.CheckObject(d.Unstructured, role, version)
			r.Checked = append(r.Checked, checked{Name: name, Source: d.source(), Report: report})
			return
		}
	}
	read, err := contract.Resolve(crd.GetName(), labels)
	if err != nil {
		r.skip(d, name, err.Error())
		return
	}
	r.skip(d, name, fmt.Sprintf("Cluster API reads objects of this kind at %s, and not at %s", read.APIVersion, at))
}

// nameOf returns kind, namespace and name of an object.
func nameOf(d document) string {
	if d.GetNamespace() == "" {
		return d.GetKind() + " " + d.GetName()
	}
	return d.GetKind() + " " + d.GetNamespace() + "/" + d.GetName()
}

// skip notes what is not judged, once: a file may be given twice.
func (r *result) skip(d document, name, reason string) {
	if s := (skipped{Name: name, Source: d.source(), Reason: reason}); !slices.Contains(r.Skipped, s) {
		r.Skipped = append(r.Skipped, s)
	}
}
