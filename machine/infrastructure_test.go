package machine_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
		obj *unstructured.Unstructured
		old bool // a dialect with the phase Failed
	}{
		"a bootstrap config": {config, false}, "an InfraMachine": {infra, false},
		"a bootstrap config, in a dialect with the phase Failed": {config, true},
		"an InfraMachine, in a dialect with the phase Failed":    {infra, true},
	} {
		t.Run(name, func(t *testing.T) {
			kind, m := contract.Unstructured(fake.MachineGVK(), contract.LayoutsOf(contract.V1Beta2).Machine), fake.Machine("m1")
			phase, at := machine.PhaseStep(phases.ClusterAPI(), machine.ClusterAPIFacts), []string{"deprecated", "v1beta1"}
			want := reported{"Pending", "CreateError", detected(tc.obj.GroupVersionKind())}
			if tc.old {
				kind = contract.Unstructured(fake.MachineGVK().GroupKind().WithVersion("v1beta1"), contract.LayoutsOf(contract.V1Beta1).Machine)
				kind.StatusSubresource = true
				m.SetGroupVersionKind(kind.GVK)
				fake.WithField(reference(infra), "spec", "infrastructureRef")(m)
				fake.WithField(map[string]any{"configRef": reference(config)}, "spec", "bootstrap")(m)
				phase, at, want.Phase = machine.PhaseStep(phases.ClusterAPIV1Beta1(), machine.ClusterAPIFacts), nil, "Failed"
			}
			steps := machine.Steps().Replace(machine.StepPhase, phase)
			w := newWorld(t, worldOptions{noCRDs: true, kind: kind, machine: machine.Options{
				Options: pass.Options{StatusDelay: -1}, Steps: steps,
			}, before: providersByHand})
			w.Create(config.DeepCopy(), infra.DeepCopy(), m)
			w.Change(tc.obj, failing("CreateError", "no quota"))
			w.Eventually("the failure", func() string { return cmp.Diff(want, reportedBy(w.Get(m), at...)) })

			t.Log("it is never taken back")
			w.Change(tc.obj, func(u *unstructured.Unstructured) {
				unstructured.RemoveNestedField(u.Object, "status", "failureReason")
				unstructured.RemoveNestedField(u.Object, "status", "failureMessage")
			})
			w.isQuiet()
			require.Empty(t, cmp.Diff(want, reportedBy(w.Get(m), at...)))
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
			w := newWorld(t, worldOptions{noCRDs: true, kind: tc.kind, before: func(w *world) {
				w.Create(fake.CRD(fake.InfraMachineGVK(tc.speaks), tc.speaks))
			}})
			infra := fake.InfraMachine(tc.speaks, "m1", fake.WithField("fake://x/m1", "spec", "providerID"))
			for key, value := range tc.spec {
				fake.WithField(value, "spec", key)(infra)
			}
			w.Create(infra)
			w.Change(infra, func(u *unstructured.Unstructured) { u.Object["status"] = tc.status })
			m := fake.Machine("m1", fake.WithContract(tc.speaks), fake.WithField("wanted", "spec", "failureDomain"),
				fake.WithField(map[string]any{"dataSecretName": "by-hand"}, "spec", "bootstrap"))
			m.SetGroupVersionKind(tc.kind.GVK)
			if tc.kind.GVK == v1beta1.GVK {
				gvk := fake.InfraMachineGVK(tc.speaks)
				fake.WithField(map[string]any{"apiVersion": gvk.GroupVersion().String(), "kind": gvk.Kind, "name": "m1"}, "spec",
					"infrastructureRef")(m)
			}
			w.Create(m)
			w.Eventually("the failure domain", func() string {
				fresh := w.Get(m)
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
	w := newWorld(t, worldOptions{before: func(w *world) {
		gvk := fake.InfraMachineGVK(contract.V1Beta2)
		gvk.Kind += contract.TemplateSuffix
		w.Create(fake.CRD(gvk, contract.V1Beta2))
	}})
	gvk := fake.InfraMachineGVK(contract.V1Beta2)
	gvk.Kind += contract.TemplateSuffix
	template := testenv.Object(gvk, "small")
	m := fake.Machine("m1", fake.WithField(map[string]any{"dataSecretName": "data"}, "spec", "bootstrap"),
		fake.WithField(map[string]any{"apiGroup": gvk.Group, "kind": gvk.Kind, "name": "small"}, "spec", "infrastructureRef"))
	w.Create(template, m)
	w.conditionIs(m, contract.ConditionInfrastructureReady, external.ReasonContractViolation, gvk.Kind+" small is a template")
	require.Empty(t, w.Get(template).GetOwnerReferences())
	w.Remove(m)
	require.Nil(t, w.Get(template).GetDeletionTimestamp())
}

// trouble is an input that a person got wrong and can mend.
type trouble struct {
	reason string
	says   []string
	wrong  func(w *world) *unstructured.Unstructured
	mend   func(w *world)
}

// badStatus is the trouble of an InfraMachine that is mended by its provider.
func badStatus(reason string, provisioned any, id string, says ...string) trouble {
	infraIs := func(w *world, provisioned any, id string) {
		w.setInfra("bad", map[string]any{"initialization": map[string]any{"provisioned": provisioned}}, id)
	}
	return trouble{
		reason: reason, says: says, mend: func(w *world) { infraIs(w, true, "fake://x/bad") },
		wrong: func(w *world) *unstructured.Unstructured {
			w.Create(fake.CRD(fake.InfraMachineGVK(contract.V1Beta2), contract.V1Beta2))
			m := w.machineWith("bad")
			infraIs(w, provisioned, id)
			return m
		},
	}
}

// badCRD is the trouble of a kind whose CRD has labels, or does not exist.
func badCRD(reason string, exists bool, labels map[string]string, says ...string) trouble {
	other := schema.GroupVersionKind{Group: "infrastructure.cluster.x-k8s.io", Version: "v1", Kind: "LateMachine"}
	late := fake.WithField(map[string]any{"apiGroup": other.Group, "kind": other.Kind, "name": "late"}, "spec", "infrastructureRef")
	create := func(w *world, labels map[string]string) {
		crd := fake.CRD(other)
		crd.SetLabels(labels)
		w.Create(crd)
		w.createProvisioned(other, "late")
	}
	good := map[string]string{"cluster.x-k8s.io/v1beta2": "v1"}
	return trouble{
		reason: reason, says: append(says, "latemachines.infrastructure.cluster.x-k8s.io"),
		wrong: func(w *world) *unstructured.Unstructured {
			if exists {
				create(w, labels)
			}
			m := fake.Machine("bad", late)
			w.Create(fake.BootstrapConfig(contract.V1Beta2, "bad"), m)
			return m
		},
		mend: func(w *world) {
			if !exists {
				create(w, good)
				return
			}
			w.Change(fake.CRD(other), func(u *unstructured.Unstructured) { u.SetLabels(good) })
		},
	}
}

func TestBadInputIsAConditionAnEventAndNoLoopAndMendsItself(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]trouble{
		"an empty provider ID": badStatus(machine.ReasonProviderIDMissing, true, "", "FakeMachine bad", "providerID"),
		"a wrong type at a contract path": badStatus(external.ReasonContractViolation, "yes", "fake://x/bad",
			"status.initialization.provisioned", "want bool", "found string"),
		"a kind whose CRD does not exist": badCRD(external.ReasonCRDNotFound, false, nil, "does not exist", "install"),
		"a CRD without a contract label":  badCRD(external.ReasonContractLabelMissing, true, nil, "cluster.x-k8s.io/v1beta2"),
		"a CRD with an empty contract label": badCRD(external.ReasonContractLabelMissing, true, map[string]string{"cluster.x-k8s.io/v1beta1": ""},
			"cluster.x-k8s.io/v1beta1", "names no API version", "must set it"),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, worldOptions{noCRDs: true, before: func(w *world) {
				w.Create(fake.CRD(fake.BootstrapConfigGVK(contract.V1Beta2), contract.V1Beta2))
			}})
			m := tc.wrong(w)
			w.conditionIs(m, contract.ConditionInfrastructureReady, tc.reason, tc.says...)
			w.recorded(tc.reason, 1)
			w.isQuiet()
			tc.mend(w)
			w.conditionIs(m, contract.ConditionInfrastructureReady, contract.ReasonReady)
			require.Len(t, w.Events(tc.reason), 1)
			w.Remove(m)
		})
	}
}

func TestAMachineOfAMissingKindCanBeDeletedWhileNothingStandsBehindIt(t *testing.T) {
	w := newWorld(t, worldOptions{})
	ref := map[string]any{"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "NoSuchMachine", "name": "x"}
	m := fake.Machine("m", fake.WithField(ref, "spec", "infrastructureRef"))
	w.Create(m)
	w.conditionIs(m, contract.ConditionInfrastructureReady, external.ReasonCRDNotFound)
	w.Remove(m)
}

// setInfra writes an InfraMachine as its provider would.
func (w *world) setInfra(name string, status map[string]any, providerID string) {
	w.t.Helper()
	obj := w.Get(fake.InfraMachine(contract.V1Beta2, name))
	w.write(obj, status, providerID)
}

func (w *world) createProvisioned(gvk schema.GroupVersionKind, name string) {
	w.t.Helper()
	obj := testenv.Object(gvk, name)
	w.Create(obj)
	w.write(obj, map[string]any{"initialization": map[string]any{"provisioned": true}}, "fake://x/"+name)
}

func (w *world) write(obj *unstructured.Unstructured, status map[string]any, providerID string) {
	w.t.Helper()
	before := obj.DeepCopy()
	obj.Object["spec"] = map[string]any{"providerID": providerID}
	require.NoError(w.t, w.client.Patch(w.t.Context(), obj, client.MergeFrom(before)))
	before = obj.DeepCopy()
	obj.Object["status"] = status
	require.NoError(w.t, w.client.Status().Patch(w.t.Context(), obj, client.MergeFrom(before)))
}

func TestAMachineOfAProviderThatSpeaksAnOldContractIsProvisioned(t *testing.T) {
	infra, bootstrap := fake.InfraMachineGVK(contract.V1Alpha3), fake.BootstrapConfigGVK(contract.V1Alpha3)
	w := newWorld(t, worldOptions{noCRDs: true, machine: machine.Options{Options: pass.Options{ContractVersions: contract.AllVersions()}}})
	w.Create(fake.CRD(infra, contract.V1Alpha3), fake.CRD(bootstrap, contract.V1Alpha3))
	config, instance := fake.BootstrapConfig(contract.V1Alpha3, "old"), fake.InfraMachine(contract.V1Alpha3, "old")
	m := fake.Machine("old")
	w.Create(config, instance, m)
	w.Change(config, func(u *unstructured.Unstructured) {
		u.Object["status"] = map[string]any{"ready": true, "dataSecretName": "data"}
	})
	w.Change(instance, func(u *unstructured.Unstructured) {
		require.NoError(t, unstructured.SetNestedField(u.Object, "fake://old", "spec", "providerID"))
		u.Object["status"] = map[string]any{"ready": true}
	})
	w.reaches(m, "Provisioned")
}

func TestAnUnknownContractVersionIsRejected(t *testing.T) {
	_, err := machine.New(contract.Kind{}, machine.Ports{}, machine.Options{
		Options: pass.Options{ContractVersions: []contract.Version{"v1beta9"}},
	})
	require.ErrorIs(t, err, contract.ErrUnknownVersion)
	require.ErrorContains(t, err, "v1beta9")
}
