package machine

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
)

func TestObjectsAreGivenUpByTheControlPlaneThatMadeThemForItsMachine(t *testing.T) {
	t.Parallel()
	me := metav1.OwnerReference{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Machine", Name: "m", UID: "m-uid",
		Controller: new(true), BlockOwnerDeletion: new(true)}
	plane := metav1.OwnerReference{APIVersion: "controlplane.cluster.x-k8s.io/v1beta1", Kind: "KubeadmControlPlane", Name: "cp", UID: "cp-uid",
		Controller: new(true)}
	ref := contract.Ref{Group: "controlplane.cluster.x-k8s.io", Kind: "KubeadmControlPlane", Name: "cp"}
	member, worker := map[string]string{contract.ControlPlaneLabel: ""}, map[string]string(nil)
	for name, tc := range map[string]struct {
		labels  map[string]string
		plane   contract.Ref
		want    []metav1.OwnerReference
		foreign bool
	}{
		"a Machine of the control plane takes it":  {labels: member, plane: ref, want: []metav1.OwnerReference{me}},
		"a worker does not":                        {labels: worker, plane: ref, foreign: true},
		"another control plane does not let it go": {labels: member, plane: contract.Ref{Group: "g", Kind: "K", Name: "cp"}, foreign: true},
		"without a Cluster it is not known":        {labels: member, foreign: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Scope{env: testReconciler(testKind(), Ports{}, Options{})}
			s.State.Labels, s.Cluster.State.ControlPlane = tc.labels, tc.plane
			got, _, foreign := engine.Own([]metav1.OwnerReference{plane}, me, s.givesUp())
			if diff := cmp.Diff(tc.want, got); diff != "" || (foreign != nil) != tc.foreign {
				t.Errorf("foreign: want %v, got %v; owners (-want +got):\n%s", tc.foreign, foreign, diff)
			}
		})
	}
}
