package machine_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/machine"
)

// trouble is an input that a person got wrong and can mend.
type trouble struct {
	condition, reason string
	says              []string
	// wrong makes the world with the trouble in it, and mend takes it out.
	options worldOptions
	wrong   func(w *world, name string) *unstructured.Unstructured
	mend    func(w *world, m *unstructured.Unstructured)
}

func TestBadInputIsAConditionAnEventAndNoLoopAndMendsItself(t *testing.T) {
	t.Parallel()
	byHand := worldOptions{noCRDs: true, before: func(w *world) {
		w.create(fake.CRD(fake.BootstrapConfigGVK(contract.V1Beta2), contract.V1Beta2))
	}}
	other := schema.GroupVersionKind{Group: "infrastructure.cluster.x-k8s.io", Version: "v1", Kind: "LateMachine"}
	late := fake.WithField(map[string]any{"apiGroup": other.Group, "kind": other.Kind, "name": "late"}, "spec", "infrastructureRef")
	for name, tc := range map[string]trouble{
		"an empty provider ID": {
			condition: contract.ConditionInfrastructureReady, reason: machine.ReasonProviderIDMissing,
			says:    []string{"FakeMachine bad", "providerID"},
			options: byHand,
			wrong: func(w *world, name string) *unstructured.Unstructured {
				w.create(fake.CRD(fake.InfraMachineGVK(contract.V1Beta2), contract.V1Beta2))
				m := w.machineWith(name)
				w.setInfra(name, map[string]any{"initialization": map[string]any{"provisioned": true}}, "")
				return m
			},
			mend: func(w *world, m *unstructured.Unstructured) {
				w.setInfra(m.GetName(), map[string]any{"initialization": map[string]any{"provisioned": true}}, "fake://x/"+m.GetName())
			},
		},
		"a wrong type at a contract path": {
			condition: contract.ConditionInfrastructureReady, reason: external.ReasonContractViolation,
			says:    []string{"status.initialization.provisioned", "want bool", "found string"},
			options: byHand,
			wrong: func(w *world, name string) *unstructured.Unstructured {
				w.create(fake.CRD(fake.InfraMachineGVK(contract.V1Beta2), contract.V1Beta2))
				m := w.machineWith(name)
				w.setInfra(name, map[string]any{"initialization": map[string]any{"provisioned": "yes"}}, "fake://x/"+name)
				return m
			},
			mend: func(w *world, m *unstructured.Unstructured) {
				w.setInfra(m.GetName(), map[string]any{"initialization": map[string]any{"provisioned": true}}, "fake://x/"+m.GetName())
			},
		},
		"a kind whose CRD does not exist": {
			condition: contract.ConditionInfrastructureReady, reason: external.ReasonCRDNotFound,
			says:    []string{"latemachines.infrastructure.cluster.x-k8s.io", "does not exist", "install"},
			options: byHand,
			wrong: func(w *world, name string) *unstructured.Unstructured {
				m := fake.Machine(name, late)
				w.create(fake.BootstrapConfig(contract.V1Beta2, name), m)
				return m
			},
			mend: func(w *world, _ *unstructured.Unstructured) {
				w.create(fake.CRD(other, contract.V1Beta2))
				w.createProvisioned(other, "late")
			},
		},
		"a CRD without a contract label": {
			condition: contract.ConditionInfrastructureReady, reason: external.ReasonContractLabelMissing,
			says:    []string{"latemachines.infrastructure.cluster.x-k8s.io", "cluster.x-k8s.io/v1beta2"},
			options: byHand,
			wrong: func(w *world, name string) *unstructured.Unstructured {
				w.create(fake.CRD(other))
				w.createProvisioned(other, "late")
				m := fake.Machine(name, late)
				w.create(fake.BootstrapConfig(contract.V1Beta2, name), m)
				return m
			},
			mend: func(w *world, _ *unstructured.Unstructured) {
				crd := w.get(fake.CRD(other))
				crd.SetLabels(map[string]string{"cluster.x-k8s.io/v1beta2": "v1"})
				require.NoError(w.t, w.client.Update(w.t.Context(), crd))
			},
		},
		"a CRD with an empty contract label": {
			condition: contract.ConditionInfrastructureReady, reason: external.ReasonContractLabelMissing,
			says:    []string{"latemachines.infrastructure.cluster.x-k8s.io", "cluster.x-k8s.io/v1beta1", "names no API version", "must set it"},
			options: byHand,
			wrong: func(w *world, name string) *unstructured.Unstructured {
				crd := fake.CRD(other)
				crd.SetLabels(map[string]string{"cluster.x-k8s.io/v1beta1": ""})
				w.create(crd)
				w.createProvisioned(other, "late")
				m := fake.Machine(name, late)
				w.create(fake.BootstrapConfig(contract.V1Beta2, name), m)
				return m
			},
			mend: func(w *world, _ *unstructured.Unstructured) {
				crd := w.get(fake.CRD(other))
				crd.SetLabels(map[string]string{"cluster.x-k8s.io/v1beta2": "v1"})
				require.NoError(w.t, w.client.Update(w.t.Context(), crd))
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tc.options)
			m := tc.wrong(w, "bad")
			message := w.conditionIs(m, tc.condition, tc.reason)
			for _, part := range tc.says {
				if !strings.Contains(message, part) {
					t.Errorf("the message does not say %q: %s", part, message)
				}
			}
			w.eventually("an event", func() string {
				if len(w.events(tc.reason)) == 0 {
					return "there is none with reason " + tc.reason
				}
				return ""
			})
			w.isQuiet()
			tc.mend(w, m)
			w.conditionIs(m, tc.condition, contract.ReasonReady)
			if n := len(w.events(tc.reason)); n != 1 {
				t.Errorf("want one event, got %d", n)
			}
			require.NoError(t, w.client.Delete(t.Context(), m))
			w.goes(m)
		})
	}
}

func TestAMachineOfAMissingKindCanBeDeletedWhileNothingStandsBehindIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	ref := map[string]any{"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "NoSuchMachine", "name": "x"}
	m := fake.Machine("m", fake.WithField(ref, "spec", "infrastructureRef"))
	w.create(m)
	w.conditionIs(m, contract.ConditionInfrastructureReady, external.ReasonCRDNotFound)
	require.NoError(t, w.client.Delete(t.Context(), m))
	w.goes(m)
}

// setInfra writes an InfraMachine as its provider would.
func (w *world) setInfra(name string, status map[string]any, providerID string) {
	w.t.Helper()
	obj := w.get(fake.InfraMachine(contract.V1Beta2, name))
	w.write(obj, status, providerID)
}

func (w *world) createProvisioned(gvk schema.GroupVersionKind, name string) {
	w.t.Helper()
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(gvk)
	obj.SetNamespace("default")
	obj.SetName(name)
	w.create(obj)
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
	t.Parallel()
	infra, bootstrap := fake.InfraMachineGVK(contract.V1Alpha3), fake.BootstrapConfigGVK(contract.V1Alpha3)
	w := newWorld(t, worldOptions{noCRDs: true, machine: machine.Options{Options: pass.Options{ContractVersions: contract.AllVersions()}}})
	w.create(fake.CRD(infra, contract.V1Alpha3), fake.CRD(bootstrap, contract.V1Alpha3))
	config, instance := fake.BootstrapConfig(contract.V1Alpha3, "old"), fake.InfraMachine(contract.V1Alpha3, "old")
	m := fake.Machine("old")
	w.create(config, instance, m)
	w.change(config, func(u *unstructured.Unstructured) {
		u.Object["status"] = map[string]any{"ready": true, "dataSecretName": "data"}
	})
	w.change(instance, func(u *unstructured.Unstructured) {
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
