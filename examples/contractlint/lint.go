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
type kinds map[schema.GroupKind]document

func lint(in *input, o options) result {
	r := result{Checked: []checked{}, Skipped: []skipped{}, Warnings: append([]string{}, in.warnings...)}
	crds := kinds{}
	for _, d := range in.documents {
		if known, ok := crds[definedBy(d)]; d.isCRD() && (!ok || !labelled(known)) {
			crds[definedBy(d)] = d
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
	role, ok := o.role, o.role != 0
	if !ok {
		role, ok = conformance.RoleOf(gk, labelled(d))
	}
	if !ok {
		r.skip(d, d.GetName(), fmt.Sprintf("%s is no kind that a Machine or a MachinePool reads, by its group and name", gk.Kind))
		return
	}
	c := checked{Name: d.GetName(), Source: d.source(), Report: conformance.InspectCRD(d.Unstructured, role)}
	if !labelled(d) {
		c.Note = "no contract label: if a kustomization sets it, lint its folder or the built manifests"
	}
	r.Checked = append(r.Checked, c)
}

// object judges an object of a provider. Objects that no Machine reads are no news: only those of providers' groups are listed.
func (r *result) object(d document, crds kinds, o options) {
	gvk := d.GroupVersionKind()
	crd, defined := crds[gvk.GroupKind()]
	role, ok := o.role, o.role != 0
	if !ok {
		role, ok = conformance.RoleOf(gvk.GroupKind(), defined && labelled(crd))
	}
	if !ok {
		return
	}
	name := gvk.Kind + " " + d.GetNamespace() + "/" + d.GetName()
	if d.GetNamespace() == "" {
		name = gvk.Kind + " " + d.GetName()
	}
	if defined && labelled(crd) {
		labels, _, _ := unstructured.NestedStringMap(crd.Object, "metadata", "labels")
		version, err := contract.VersionOf(crd.GetName(), labels, gvk.Version)
		if err != nil {
			r.skip(d, name, err.Error())
			return
		}
		r.Checked = append(r.Checked, checked{Name: name, Source: d.source(), Report: conformance.InspectObject(d.Unstructured, role, version)})
		return
	}
	report, note := bestFit(d.Unstructured, role, o.contract)
	r.Checked = append(r.Checked, checked{Name: name, Source: d.source(), Note: note, Report: report})
}

// bestFit judges an object by the contract whose flag it sets, and without one by the contract that it breaks least, of
// several the newest, when nobody says which it is.
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

func (r *result) skip(d document, name, reason string) {
	if !slices.ContainsFunc(r.Skipped, func(s skipped) bool { return s.Name == name && s.Source == d.source() }) {
		r.Skipped = append(r.Skipped, skipped{Name: name, Source: d.source(), Reason: reason})
	}
}
