package machine_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/phases"
)

// reported is what the status of a Machine says of failures for good.
type reported struct{ Phase, Reason, Message string }

func reportedBy(m *unstructured.Unstructured, at ...string) reported {
	text := func(path ...string) string {
		value, _, _ := unstructured.NestedString(m.Object, path...)
		return value
	}
	return reported{
		Phase:   text("status", "phase"),
		Reason:  text(append(append([]string{"status"}, at...), "failureReason")...),
		Message: text(append(append([]string{"status"}, at...), "failureMessage")...),
	}
}

// failing writes a failure into the status of a provider's object, beside what stands there.
func failing(reason, message string) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) {
		fake.WithField(reason, "status", "failureReason")(u)
		fake.WithField(message, "status", "failureMessage")(u)
	}
}

func TestAFailureOfAProvidersObjectReachesTheStatusOfTheMachine(t *testing.T) {
	t.Parallel()
	config, infra := fake.BootstrapConfig(contract.V1Beta2, "m1"), fake.InfraMachine(contract.V1Beta2, "m1")
	detected := func(gvk schema.GroupVersionKind) string {
		return "Failure detected from referenced resource " + gvk.GroupVersion().String() + ", Kind=" + gvk.Kind + ` with name "m1": no quota`
	}
	for name, tc := range map[string]struct {
		obj     *unstructured.Unstructured
		version string
		phase   machine.Step
		at      []string
		want    reported
	}{
		"a bootstrap config": {
			obj: config, version: "v1beta2", phase: machine.PhaseStep(phases.ClusterAPI(), machine.ClusterAPIFacts),
			at: []string{"deprecated", "v1beta1"}, want: reported{"Pending", "CreateError", detected(config.GroupVersionKind())},
		},
		"an InfraMachine": {
			obj: infra, version: "v1beta2", phase: machine.PhaseStep(phases.ClusterAPI(), machine.ClusterAPIFacts),
			at: []string{"deprecated", "v1beta1"}, want: reported{"Pending", "CreateError", detected(infra.GroupVersionKind())},
		},
		"a bootstrap config, in a dialect with the phase Failed": {
			obj: config, version: "v1beta1", phase: machine.PhaseStep(phases.ClusterAPIV1Beta1(), machine.ClusterAPIFacts),
			want: reported{"Failed", "CreateError", detected(config.GroupVersionKind())},
		},
		"an InfraMachine, in a dialect with the phase Failed": {
			obj: infra, version: "v1beta1", phase: machine.PhaseStep(phases.ClusterAPIV1Beta1(), machine.ClusterAPIFacts),
			want: reported{"Failed", "CreateError", detected(infra.GroupVersionKind())},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kind, m := contract.Unstructured(fake.MachineGVK(), contract.LayoutsOf(contract.V1Beta2).Machine), fake.Machine("m1")
			if tc.version == "v1beta1" {
				kind = contract.Unstructured(fake.MachineGVK().GroupKind().WithVersion("v1beta1"), contract.LayoutsOf(contract.V1Beta1).Machine)
				kind.StatusSubresource = true
				m.SetGroupVersionKind(kind.GVK)
				fake.WithField(reference(infra), "spec", "infrastructureRef")(m)
				fake.WithField(map[string]any{"configRef": reference(config)}, "spec", "bootstrap")(m)
			}
			steps := machine.Steps().Replace(machine.StepPhase, tc.phase)
			w := newWorld(t, worldOptions{noCRDs: true, kind: kind, machine: machine.Options{
				Options: pass.Options{StatusDelay: -1}, Steps: steps,
			}, before: func(w *world) {
				w.create(fake.CRD(fake.InfraMachineGVK(contract.V1Beta2), contract.V1Beta2))
				w.create(fake.CRD(fake.BootstrapConfigGVK(contract.V1Beta2), contract.V1Beta2))
			}})
			w.create(config.DeepCopy(), infra.DeepCopy(), m)
			w.change(tc.obj, failing("CreateError", "no quota"))
			w.eventually("the failure", func() string { return cmp.Diff(tc.want, reportedBy(w.get(m), tc.at...)) })

			t.Log("it is never taken back")
			w.change(tc.obj, func(u *unstructured.Unstructured) {
				unstructured.RemoveNestedField(u.Object, "status", "failureReason")
				unstructured.RemoveNestedField(u.Object, "status", "failureMessage")
			})
			w.isQuiet()
			if diff := cmp.Diff(tc.want, reportedBy(w.get(m), tc.at...)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// reference is what refers to an object in cluster.x-k8s.io/v1beta1.
func reference(obj *unstructured.Unstructured) map[string]any {
	return map[string]any{"apiVersion": obj.GetAPIVersion(), "kind": obj.GetKind(), "namespace": "default", "name": obj.GetName()}
}

// Edge-case matrix: "failure domain". Where a machine really is stands in the status of a Machine that has a place for it there,
// whatever contract its infrastructure speaks. What was asked for, in its spec, stays the user's, unless the provider has a place of its own in
// its spec: it placed the machine there, and who places the next one goes by it. Rule: Cluster API's reconcileInfrastructure.
func TestAMachineSaysInWhichFailureDomainItReallyIs(t *testing.T) {
	t.Parallel()
	v1beta1 := contract.Unstructured(fake.MachineGVK().GroupKind().WithVersion("v1beta1"), contract.LayoutsOf(contract.V1Beta1).Machine)
	v1beta1.StatusSubresource = true
	v1beta2 := contract.Unstructured(fake.MachineGVK(), contract.LayoutsOf(contract.V1Beta2).Machine)
	for name, tc := range map[string]struct {
		kind         contract.Kind
		speaks       contract.Version
		spec, status map[string]any
		at           []string
		asked        string
	}{
		"both are new": {kind: v1beta2, speaks: contract.V1Beta2, at: []string{"status", "failureDomain"}, asked: "wanted",
			status: map[string]any{"initialization": map[string]any{"provisioned": true}, "failureDomain": "real"}},
		"an old provider": {kind: v1beta2, speaks: contract.V1Beta1, at: []string{"status", "failureDomain"}, asked: "real",
			spec: map[string]any{"failureDomain": "real"}, status: map[string]any{"ready": true}},
		"a new provider that still uses the old place": {kind: v1beta2, speaks: contract.V1Beta2, at: []string{"status", "failureDomain"},
			asked: "real",
			spec:  map[string]any{"failureDomain": "real"}, status: map[string]any{"initialization": map[string]any{"provisioned": true}}},
		"a provider with both": {kind: v1beta2, speaks: contract.V1Beta1, at: []string{"status", "failureDomain"}, asked: "placed",
			spec: map[string]any{"failureDomain": "placed"}, status: map[string]any{"ready": true, "failureDomain": "real"}},
		"a place without a name takes the wish away": {kind: v1beta2, speaks: contract.V1Beta1, at: []string{"status", "failureDomain"},
			spec: map[string]any{"failureDomain": ""}, status: map[string]any{"ready": true, "failureDomain": "real"}},
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
				fake.WithField(map[string]any{"apiVersion": gvk.GroupVersion().String(), "kind": gvk.Kind, "name": "m1"}, "spec",
					"infrastructureRef")(m)
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

// A set of another operator has named the template where it had nothing to make of it: other Machines are made from it.
func TestATemplateThatAMachineNamesIsNeitherOwnedNorDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{before: func(w *world) {
		gvk := fake.InfraMachineGVK(contract.V1Beta2)
		gvk.Kind += contract.TemplateSuffix
		w.create(fake.CRD(gvk, contract.V1Beta2))
	}})
	gvk := fake.InfraMachineGVK(contract.V1Beta2)
	gvk.Kind += contract.TemplateSuffix
	template := testenv.Object(gvk, "small")
	m := fake.Machine("m1", fake.WithField(map[string]any{"dataSecretName": "data"}, "spec", "bootstrap"),
		fake.WithField(map[string]any{"apiGroup": gvk.Group, "kind": gvk.Kind, "name": "small"}, "spec", "infrastructureRef"))
	w.create(template, m)
	w.conditionSays(m, contract.ConditionInfrastructureReady, external.ReasonContractViolation, gvk.Kind+" small is a template")
	require.Empty(t, w.get(template).GetOwnerReferences())
	require.NoError(t, w.client.Delete(t.Context(), m))
	w.goes(m)
	require.Nil(t, w.get(template).GetDeletionTimestamp())
}
