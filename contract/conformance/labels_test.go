package conformance_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/conformance"
)

// labelled sets the contract labels of a CRD; an empty text sets none.
func labelled(labels string) edit { return set("{"+labels+"}", "metadata", "labels") }

func TestCheckCRD_Labels(t *testing.T) {
	const at1, at2 = "metadata.labels[cluster.x-k8s.io/v1beta1]", "metadata.labels[cluster.x-k8s.io/v1beta2]"
	for name, c := range map[string]brokenCRD{
		"none": {
			edits: []edit{labelled("")},
			want:  []conformance.Finding{must(at2, "nothing", versionsOf1)}, rule: "does not know which version to read",
		},
		"an empty one": {
			edits: []edit{labelled(`cluster.x-k8s.io/v1beta2: ""`)},
			want:  []conformance.Finding{must(at2, `""`, versionsOf1)},
		},
		"an empty one beside one that can be used": {
			edits: []edit{labelled(`cluster.x-k8s.io/v1beta2: "_", cluster.x-k8s.io/v1beta1: v1beta1`)},
			want:  []conformance.Finding{should(at2, `"_"`, "the API versions that fulfil the contract, or no such label")},
		},
		"one that is no text": {
			edits: []edit{labelled(`cluster.x-k8s.io/v1beta2: 2, cluster.x-k8s.io/v1beta1: v1beta1`)},
			want:  []conformance.Finding{must(at2, "integer", "string")},
		},
		"no labels but a list": {
			edits: []edit{set("[a]", "metadata", "labels")},
			want:  []conformance.Finding{must("metadata.labels", "list", "object"), must(at2, "nothing", versionsOf1)},
		},
		"no version that is served": {
			edits: []edit{inVersion("v1beta2", "false", "served"), inVersion("v1beta1", "false", "served")},
			want: []conformance.Finding{
				must(at2, "v1beta2, which is not served", "one of the served versions, of which there is none"),
				should(at1, "v1beta1, which is not served", "one of the served versions, of which there is none"),
			},
		},
		"one that names a version which is not there": {
			edits: []edit{labelled(`cluster.x-k8s.io/v1beta2: v1beta2_v1beta3`)},
			want:  []conformance.Finding{must(at2, "v1beta3, which spec.versions does not have", "one of v1beta1, v1beta2")},
			rule:  "Cluster API reads the highest version",
		},
		"one that names a version which is no longer served": {
			edits: []edit{inVersion("v1beta2", "false", "served")},
			want:  []conformance.Finding{must(at2, "v1beta2, which is not served", "one of v1beta1")},
		},
		"one that still names an old version, which is not read": {
			edits: []edit{labelled(`cluster.x-k8s.io/v1beta2: v1alpha3_v1beta2`)},
			want:  []conformance.Finding{should(at2, "v1alpha3, which spec.versions does not have", "one of v1beta1, v1beta2")},
		},
		"an older one that names a version which is gone": {
			edits: []edit{labelled(`cluster.x-k8s.io/v1beta2: v1beta2, cluster.x-k8s.io/v1beta1: v1alpha4`)},
			want:  []conformance.Finding{should(at1, "v1alpha4, which spec.versions does not have", "one of v1beta1, v1beta2")},
		},
		"one that also names an old version with another contract's fields, which no controller reads": {
			edits: []edit{labelled(`cluster.x-k8s.io/v1beta2: v1beta1_v1beta2`)},
			want: []conformance.Finding{
				should("spec.versions[v1beta1]: status.initialization.provisioned", "nothing",
					"boolean"),
			},
			rule: "Cluster API reads v1beta2 and never v1beta1, which the label may no longer name",
		},
		"the highest version of an older label, which an older Cluster API reads": {
			edits: []edit{labelled(`cluster.x-k8s.io/v1beta2: v1beta2, cluster.x-k8s.io/v1beta1: v1beta1`),
				inSchema("v1beta1", "", "status", "ready")},
			want: []conformance.Finding{
				should("spec.versions[v1beta1]: status.ready", "nothing", "boolean"),
			},
			rule: "only Cluster API up to v1.10 reads contract v1beta1; newer releases read v1beta2 by contract v1beta2",
		},
		"both on one version with the newer fields only, as the Proxmox provider has them": {
			edits: []edit{labelled(`cluster.x-k8s.io/v1beta2: v1beta2, cluster.x-k8s.io/v1beta1: v1beta2`)},
			want: []conformance.Finding{
				should("spec.versions[v1beta2]: status.ready",
					"nothing", "boolean"),
			},
			rule: "only Cluster API up to v1.10 reads contract v1beta1; newer releases read v1beta2 by contract v1beta2",
		},
		"both on one version with the older fields only, which newer releases do not read": {
			edits: []edit{labelled(`cluster.x-k8s.io/v1beta2: v1beta1, cluster.x-k8s.io/v1beta1: v1beta1`)},
			want: []conformance.Finding{
				must("spec.versions[v1beta1]: status.initialization.provisioned", "nothing",
					"boolean"),
			},
		},
		"the older one alone, without its flag": {
			edits: []edit{labelled(`cluster.x-k8s.io/v1beta1: v1beta1`), inSchema("v1beta1", "", "status", "ready")},
			want:  []conformance.Finding{must("spec.versions[v1beta1]: status.ready", "nothing", "boolean")},
		},
		"commas for underscores": {
			edits: []edit{labelled(`cluster.x-k8s.io/v1beta1: "v1beta1,v1beta2"`)},
			want:  []conformance.Finding{must(at1, `"v1beta1,v1beta2"`, versionsOf1)},
		},
		"old contracts beside new ones are not judged": {
			edits: []edit{set("v1alpha9", "metadata", "labels", "cluster.x-k8s.io/v1alpha3"),
				set("", "metadata", "labels", "cluster.x-k8s.io/v1alpha4"),
				set("kubevirt", "metadata", "labels", "cluster.x-k8s.io/provider")},
		},
		"only contracts that are no longer honoured": {
			edits: []edit{labelled(`cluster.x-k8s.io/v1alpha4: v1beta1`)},
			want:  []conformance.Finding{must(at2, "nothing", versionsOf1)}, rule: "fulfils only contract v1alpha4",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.role = conformance.InfraMachine
			c.check(t)
		})
	}
}

func TestCheckCRD_JudgesWhatTheLabelsName(t *testing.T) {
	type judged = []conformance.Judged
	for name, c := range map[string]struct {
		edits []edit
		want  judged
	}{
		"each version by its own contract": {
			want: judged{{APIVersion: "v1beta2", Contract: contract.V1Beta2}, {APIVersion: "v1beta1", Contract: contract.V1Beta1}},
		},
		"as Cluster API's AWS provider: the newer version by the older contract": {
			edits: []edit{labelled("cluster.x-k8s.io/v1beta1: v1beta1_v1beta2")},
			want:  judged{{APIVersion: "v1beta2", Contract: contract.V1Beta1}, {APIVersion: "v1beta1", Contract: contract.V1Beta1}},
		},
		"one version by both contracts": {
			edits: []edit{labelled("cluster.x-k8s.io/v1beta1: v1beta1, cluster.x-k8s.io/v1beta2: v1beta1")},
			want:  judged{{APIVersion: "v1beta1", Contract: contract.V1Beta2}, {APIVersion: "v1beta1", Contract: contract.V1Beta1}},
		},
		"each once": {
			edits: []edit{labelled("cluster.x-k8s.io/v1beta2: v1beta2_v1beta2__")},
			want:  judged{{APIVersion: "v1beta2", Contract: contract.V1Beta2}},
		},
		"without labels nothing": {edits: []edit{labelled("")}, want: judged{}},
	} {
		t.Run(name, func(t *testing.T) {
			crd := goodCRD(t, conformance.InfraMachine)
			for _, change := range c.edits {
				change(t, crd.Object)
			}
			require.Equal(t, c.want, conformance.CheckCRD(crd, conformance.InfraMachine).Judged)
		})
	}
}
