package machine_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
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
			kind, m := contract.Unstructured(fake.MachineGVK(), contract.MachineV1Beta2()), fake.Machine("m1")
			if tc.version == "v1beta1" {
				kind = contract.Unstructured(fake.MachineGVK().GroupKind().WithVersion("v1beta1"), contract.MachineV1Beta1())
				kind.StatusSubresource = true
				m.SetGroupVersionKind(kind.GVK)
				fake.WithField(reference(infra), "spec", "infrastructureRef")(m)
				fake.WithField(map[string]any{"configRef": reference(config)}, "spec", "bootstrap")(m)
			}
			steps, err := machine.Replace(machine.Steps(), machine.StepPhase, tc.phase)
			require.NoError(t, err)
			w := newWorld(t, worldOptions{noCRDs: true, kind: kind, machine: machine.Options{StatusDelay: -1, Steps: steps}, before: func(w *world) {
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
