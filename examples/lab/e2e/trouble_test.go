//go:build e2e

package e2e_test

import (
	"strings"
	"testing"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/stretchr/testify/require"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

// trouble is an input that a person got wrong and then mends. No provider is running for its kind: the test is the provider.
type trouble struct {
	kind   string
	reason string
	says   string
	crd    bool // installed from the start
	label  bool // with its contract label from the start
	status map[string]any
	id     string
}

func TestBadInputMendsItselfOnARealControlPlane(t *testing.T) {
	good := map[string]any{"initialization": map[string]any{"provisioned": true}}
	w := newWorld(t, worldOptions{})
	for name, tc := range map[string]trouble{
		"an empty provider ID": {
			kind: "NamelessMachine", crd: true, label: true, status: good, reason: "ProviderIDMissing", says: "spec.providerID"},
		"a wrong type at a contract path": {
			kind: "MistypedMachine", crd: true, label: true, id: "fake://x/mistyped", reason: "ContractViolation",
			status: map[string]any{"initialization": map[string]any{"provisioned": "yes"}},
			says:   "status.initialization.provisioned: want bool, found string"},
		"a CRD without a contract label": {
			kind: "UnlabelledMachine", crd: true, status: good, id: "fake://x/unlabelled", reason: "ContractLabelMissing",
			says: "unlabelledmachines.infrastructure.cluster.x-k8s.io"},
		"a CRD that does not exist": {
			kind: "MissingMachine", label: true, status: good, id: "fake://x/missing", reason: "CRDNotFound",
			says: "missingmachines.infrastructure.cluster.x-k8s.io does not exist"},
	} {
		t.Run(name, func(t *testing.T) { w.mends(t, tc) })
	}
}

func (w *world) mends(t *testing.T, tc trouble) {
	outer := w.t
	w.t = t
	defer func() { w.t = outer }()
	gvk := schema.GroupVersionKind{Group: "infrastructure.cluster.x-k8s.io", Version: "v1", Kind: tc.kind}
	name := strings.ToLower(tc.kind)
	unlabelled, labelled := fake.CRD(gvk), fake.CRD(gvk, contract.V1Beta2)
	switch {
	case tc.crd && tc.label:
		w.install(labelled)
		w.provide(gvk, name, tc.status, tc.id)
	case tc.crd:
		w.install(unlabelled)
		w.provide(gvk, name, tc.status, tc.id)
	}
	ref := map[string]any{"apiGroup": gvk.Group, "kind": gvk.Kind, "name": name}
	m := fake.Machine(name, fake.WithField(ref, "spec", "infrastructureRef"))
	require.NoError(t, w.client.Create(t.Context(), fake.BootstrapConfig(contract.V1Beta2, name)))
	require.NoError(t, w.client.Create(t.Context(), m))
	w.says(m, tc.reason, tc.says)
	w.eventually("one event", func() string {
		var list eventsv1.EventList
		require.NoError(t, w.client.List(t.Context(), &list, client.InNamespace("default")))
		for _, e := range list.Items {
			if e.Reason == tc.reason && e.Regarding.Name == name {
				return ""
			}
		}
		return "there is no event " + tc.reason
	})

	w.install(labelled)
	w.provide(gvk, name, map[string]any{"initialization": map[string]any{"provisioned": true}}, "fake://x/"+name)
	w.says(m, "Ready", "")
	require.NoError(t, w.client.Delete(t.Context(), m))
	w.gone(m)
	require.NoError(t, w.client.Delete(t.Context(), labelled))
	w.gone(labelled)
}

func (w *world) install(crd *unstructured.Unstructured) {
	w.t.Helper()
	require.NoError(w.t, cluster.InstallCRDs(w.t.Context(), w.plane.Config(), crd))
}

// provide writes an InfraMachine as its provider would.
func (w *world) provide(gvk schema.GroupVersionKind, name string, status map[string]any, id string) {
	w.t.Helper()
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(gvk)
	obj.SetNamespace("default")
	obj.SetName(name)
	if have := w.get(obj); have == nil {
		require.NoError(w.t, w.client.Create(w.t.Context(), obj))
	} else {
		obj = have
	}
	before := obj.DeepCopy()
	obj.Object["spec"] = map[string]any{"providerID": id}
	require.NoError(w.t, w.client.Patch(w.t.Context(), obj, client.MergeFrom(before)))
	before = obj.DeepCopy()
	obj.Object["status"] = status
	require.NoError(w.t, w.client.Status().Patch(w.t.Context(), obj, client.MergeFrom(before)))
}

// says waits until the Machine's InfrastructureReady has a reason, and checks its message.
func (w *world) says(m *unstructured.Unstructured, reason, message string) {
	w.t.Helper()
	w.eventually(m.GetName()+" to say "+reason, func() string {
		fresh := w.get(m)
		c, _, err := contract.ConditionsAt("status", "conditions").Find(fresh.Object, "InfrastructureReady")
		if err != nil || c.Reason != reason || !strings.Contains(c.Message, message) {
			return describe(fresh)
		}
		return ""
	})
}
