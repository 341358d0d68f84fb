package machine_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
)

// Edge-case matrix: "failure domain". Where a machine really is stands in the status of a Machine that has a place for it there,
// whatever contract its infrastructure speaks; what was asked for, in its spec, stays the user's.
func TestAMachineSaysInWhichFailureDomainItReallyIs(t *testing.T) {
	t.Parallel()
	v1beta1 := contract.Unstructured(fake.MachineGVK().GroupKind().WithVersion("v1beta1"), contract.MachineV1Beta1())
	v1beta1.StatusSubresource = true
	v1beta2 := contract.Unstructured(fake.MachineGVK(), contract.MachineV1Beta2())
	for name, tc := range map[string]struct {
		kind         contract.Kind
		speaks       contract.Version
		spec, status map[string]any
		at           []string
		asked        string
	}{
		"both are new": {kind: v1beta2, speaks: contract.V1Beta2, at: []string{"status", "failureDomain"}, asked: "wanted",
			status: map[string]any{"initialization": map[string]any{"provisioned": true}, "failureDomain": "real"}},
		"an old provider": {kind: v1beta2, speaks: contract.V1Beta1, at: []string{"status", "failureDomain"}, asked: "wanted",
			spec: map[string]any{"failureDomain": "real"}, status: map[string]any{"ready": true}},
		"a new provider that still uses the old place": {kind: v1beta2, speaks: contract.V1Beta2, at: []string{"status", "failureDomain"}, asked: "wanted",
			spec: map[string]any{"failureDomain": "real"}, status: map[string]any{"initialization": map[string]any{"provisioned": true}}},
		"an old Machine has one place for both": {kind: v1beta1, speaks: contract.V1Beta2, at: []string{"spec", "failureDomain"}, asked: "real",
			status: map[string]any{"initialization": map[string]any{"provisioned": true}, "failureDomain": "real"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, worldOptions{noCRDs: true, kind: tc.kind, before: func(w *world) {
				w.create(fake.CRD(fake.InfraMachineGVK(tc.speaks), tc.speaks))
			}})
			infra := fake.InfraMachine(tc.speaks, "m1", fake.WithField("fake://x/m1", "spec", "providerID"))
			for key, value := range tc.spec {
				fake.WithField(value, "spec", key)(infra)
			}
			w.create(infra)
			w.change(infra, func(u *unstructured.Unstructured) { u.Object["status"] = tc.status })
			m := fake.Machine("m1", fake.Speaking(tc.speaks), fake.WithField("wanted", "spec", "failureDomain"),
				fake.WithField(map[string]any{"dataSecretName": "by-hand"}, "spec", "bootstrap"))
			m.SetGroupVersionKind(tc.kind.GVK)
			if tc.kind.GVK == v1beta1.GVK {
				gvk := fake.InfraMachineGVK(tc.speaks)
				fake.WithField(map[string]any{"apiVersion": gvk.GroupVersion().String(), "kind": gvk.Kind, "name": "m1"}, "spec", "infrastructureRef")(m)
			}
			w.create(m)
			w.eventually("the failure domain", func() string {
				fresh := w.get(m)
				got, _, _ := unstructured.NestedString(fresh.Object, tc.at...)
				if asked, _, _ := unstructured.NestedString(fresh.Object, "spec", "failureDomain"); got != "real" || asked != tc.asked {
					return "it is " + got + ", and asked for is " + asked + describe(fresh)
				}
				return ""
			})
		})
	}
}
