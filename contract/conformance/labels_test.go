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
		"none":         {edits: edits{labelled("")}, want: finds{must(at2, "nothing", versionsOf1)}, rule: "cannot choose a version"},
		"an empty one": {edits: edits{labelled(`cluster.x-k8s.io/v1beta2: ""`)}, want: finds{must(at2, `""`, versionsOf1)}},
		"an empty one beside one that can be used": {
			edits: edits{labelled(`cluster.x-k8s.io/v1beta2: "_", cluster.x-k8s.io/v1beta1: v1beta1`)},
			want:  finds{should(at2, `"_"`, "the API versions that fulfil the contract, or no such label")},
		},
		"one that is no text": {
			edits: edits{labelled(`cluster.x-k8s.io/v1beta2: 2, cluster.x-k8s.io/v1beta1: v1beta1`)},
			want:  finds{must(at2, "integer", "string")},
		},
		"no labels but a list": {
			edits: edits{set("[a]", "metadata", "labels")},
			want:  finds{must("metadata.labels", "list", "object"), must(at2, "nothing", versionsOf1)},
		},
		"no version that is served": {
			edits: edits{inVersion("v1beta2", "false", "served"), inVersion("v1beta1", "false", "served")},
			want: finds{
				must(at2, "v1beta2, which is not served", "one of the served versions, of which there is none"),
				should(at1, "v1beta1, which is not served", "one of the served versions, of which there is none"),
			},
		},
		"one that names a version which is not there": {
			edits: edits{labelled(`cluster.x-k8s.io/v1beta2: v1beta2_v1beta3`)},
			want:  finds{must(at2, "v1beta3, which spec.versions does not have", "one of v1beta1, v1beta2")},
			rule:  "Cluster API reads the highest version",
		},
		"one that names a version which is no longer served": {
			edits: edits{inVersion("v1beta2", "false", "served")}, want: finds{must(at2, "v1beta2, which is not served", "one of v1beta1")},
		},
		"one that still names an old version, which is not read": {
			edits: edits{labelled(`cluster.x-k8s.io/v1beta2: v1alpha3_v1beta2`)},
			want:  finds{should(at2, "v1alpha3, which spec.versions does not have", "one of v1beta1, v1beta2")},
		},
		"an older one that names a version which is gone": {
			edits: edits{labelled(`cluster.x-k8s.io/v1beta2: v1beta2, cluster.x-k8s.io/v1beta1: v1alpha4`)},
			want:  finds{should(at1, "v1alpha4, which spec.versions does not have", "one of v1beta1, v1beta2")},
		},
		"one that also names an old version with another contract's fields, which no controller reads": {
			edits: edits{labelled(`cluster.x-k8s.io/v1beta2: v1beta1_v1beta2`)},
			want:  finds{should(inOlder+"status.initialization.provisioned", "nothing", "boolean")},
			rule:  "Cluster API reads v1beta2 and never v1beta1, which the label may no longer name",
		},
		"the highest version of an older label, which an older Cluster API reads": {
			edits: edits{labelled(`cluster.x-k8s.io/v1beta2: v1beta2, cluster.x-k8s.io/v1beta1: v1beta1`),
				older("", "status", "ready")},
			want: finds{should(inOlder+"status.ready", "nothing", "boolean")},
			rule: "only Cluster API up to v1.10 reads contract v1beta1; newer releases read v1beta2 by contract v1beta2",
		},
		"both on one version with the newer fields only, as the Proxmox provider has them": {
			edits: edits{labelled(`cluster.x-k8s.io/v1beta2: v1beta2, cluster.x-k8s.io/v1beta1: v1beta2`)},
			want:  finds{should(inNewer+"status.ready", "nothing", "boolean")},
			rule:  "only Cluster API up to v1.10 reads contract v1beta1; newer releases read v1beta2 by contract v1beta2",
		},
		"both on one version with the older fields only, which newer releases do not read": {
			edits: edits{labelled(`cluster.x-k8s.io/v1beta2: v1beta1, cluster.x-k8s.io/v1beta1: v1beta1`)},
			want:  finds{must(inOlder+"status.initialization.provisioned", "nothing", "boolean")},
		},
		"the older one alone, without its flag": {
			edits: edits{labelled(`cluster.x-k8s.io/v1beta1: v1beta1`), older("", "status", "ready")},
			want:  finds{must(inOlder+"status.ready", "nothing", "boolean")},
		},
		"commas for underscores": {
			edits: edits{labelled(`cluster.x-k8s.io/v1beta1: "v1beta1,v1beta2"`)}, want: finds{must(at1, `"v1beta1,v1beta2"`, versionsOf1)},
		},
		"old contracts beside new ones are not judged": {
			edits: edits{set("v1alpha9", "metadata", "labels", "cluster.x-k8s.io/v1alpha3"),
				set("", "metadata", "labels", "cluster.x-k8s.io/v1alpha4"),
				set("kubevirt", "metadata", "labels", "cluster.x-k8s.io/provider")},
		},
		"only contracts that are no longer honoured": {
			edits: edits{labelled(`cluster.x-k8s.io/v1alpha4: v1beta1`)},
			want:  finds{must(at2, "nothing", versionsOf1)}, rule: "fulfils only contract v1alpha4",
		},
	} {
		t.Run(name, c.check)
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
			edits: edits{labelled("cluster.x-k8s.io/v1beta1: v1beta1_v1beta2")},
			want:  judged{{APIVersion: "v1beta2", Contract: contract.V1Beta1}, {APIVersion: "v1beta1", Contract: contract.V1Beta1}},
		},
		"one version by both contracts": {
			edits: edits{labelled("cluster.x-k8s.io/v1beta1: v1beta1, cluster.x-k8s.io/v1beta2: v1beta1")},
			want:  judged{{APIVersion: "v1beta1", Contract: contract.V1Beta2}, {APIVersion: "v1beta1", Contract: contract.V1Beta1}},
		},
		"each once": {
			edits: edits{labelled("cluster.x-k8s.io/v1beta2: v1beta2_v1beta2__")},
			want:  judged{{APIVersion: "v1beta2", Contract: contract.V1Beta2}},
		},
		"without labels nothing": {edits: edits{labelled("")}, want: judged{}},
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
