package drain_test

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/drain"
)

func ExamplePlanVolumes() {
	name := "pvc-1"
	plan, err := drain.PlanVolumes(drain.VolumeFacts{
		Now:  time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC),
		Node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}},
		Attachments: []*storagev1.VolumeAttachment{{
			ObjectMeta: metav1.ObjectMeta{Name: "csi-1"},
			Spec: storagev1.VolumeAttachmentSpec{
				NodeName: "node-1", Attacher: "disk.example.com",
				Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &name},
			},
			Status: storagev1.VolumeAttachmentStatus{Attached: true},
		}},
		Volume: func(name string) (*corev1.PersistentVolume, error) { // usually from a lister
			return &corev1.PersistentVolume{
				ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec:       corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{Namespace: "shop", Name: "data"}},
			}, nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(plan.Done(), plan.Blocking[0].PV)
	fmt.Println(plan.Summary())
	// Output:
	// false pvc-1
	// * PersistentVolumeClaims: shop/data
}
