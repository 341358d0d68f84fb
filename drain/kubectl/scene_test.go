package kubectl

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	kubectldrain "k8s.io/kubectl/pkg/drain"

	"github.com/machinist-dev/machinist/drain"
)

// bits draws choices from bytes, so that the random test and the fuzzer share one generator. At the end all choices are 0.
type bits struct{ rest []byte }

func (b *bits) pick(n int) int {
	if len(b.rest) == 0 {
		return 0
	}
	v := int(b.rest[0]) % n
	b.rest = b.rest[1:]
	return v
}

func (b *bits) yes() bool { return b.pick(2) == 1 }

func oneOf[T any](b *bits, from ...T) T { return from[b.pick(len(from))] }

// scene is a Node's pods and what is asked about them.
type scene struct {
	options  Options
	selector string
	pods     []*corev1.Pod
}

// draw makes a scene. now is what both sides take for the time.
func draw(b *bits, now time.Time) scene {
	s := scene{selector: oneOf(b, "", "", "", "", "", "app=web", "app notin (web)")}
	selector, err := labels.Parse(s.selector)
	if err != nil {
		selector = nil
	}
	s.options.KubectlOptions = drain.KubectlOptions{
		Force: b.yes(), IgnoreAllDaemonSets: b.yes(), DeleteEmptyDirData: b.yes(),
		PodSelector:              oneOf(b, selector, selector),
		SkipWaitForDeleteTimeout: oneOf(b, 0, 60*time.Second, time.Second),
		Now:                      func() time.Time { return now },
	}
	if b.pick(4) > 0 {
		s.options.DaemonSets = findDaemonSet
	}
	for range b.pick(4) {
		s.options.AdditionalFilters = append(s.options.AdditionalFilters, drawFilter(b))
	}
	for i := range 1 + b.pick(6) {
		s.pods = append(s.pods, drawPod(b, i, now))
	}
	slices.SortFunc(s.pods, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name)) // as the API server lists them
	})
	return s
}

func findDaemonSet(namespace, name string) (*appsv1.DaemonSet, error) {
	resource := appsv1.Resource("daemonsets")
	switch name {
	case "agent":
		return &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}, nil
	case "forbidden":
		return nil, apierrors.NewForbidden(resource, name, errors.New("no RBAC"))
	case "broken":
		return nil, errors.New("connection refused")
	default:
		return nil, apierrors.NewNotFound(resource, name)
	}
}

func drawFilter(b *bits) kubectldrain.PodFilter {
	status := oneOf(b,
		kubectldrain.MakePodDeleteStatusOkay(),
		kubectldrain.MakePodDeleteStatusSkip(),
		kubectldrain.MakePodDeleteStatusWithWarning(true, "mind the gap"),
		kubectldrain.MakePodDeleteStatusWithWarning(false, "left alone by my filter"),
		kubectldrain.MakePodDeleteStatusWithError("Pods that my filter refuses"),
		kubectldrain.MakePodDeleteStatusWithError(""),
		kubectldrain.PodDeleteStatus{},
		kubectldrain.PodDeleteStatus{Delete: true, Reason: "Whatever", Message: "this is not read"},
	)
	about := oneOf(b, corev1.PodRunning, corev1.PodRunning, corev1.PodFailed)
	return func(pod corev1.Pod) kubectldrain.PodDeleteStatus {
		if pod.Status.Phase != about {
			return kubectldrain.MakePodDeleteStatusOkay()
		}
		return status
	}
}

func drawPod(b *bits, i int, now time.Time) *corev1.Pod {
	name := fmt.Sprintf("%s-%d", oneOf(b, "p", "a", "z"), i)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: oneOf(b, "shop", "default"), Name: name, UID: types.UID("uid-" + name),
			Labels: oneOf(b, nil, map[string]string{"app": "web"}, map[string]string{"app": "db"}),
		},
		Spec: corev1.PodSpec{NodeName: oracleNode},
		Status: corev1.PodStatus{Phase: oneOf(b,
			corev1.PodRunning, corev1.PodRunning, corev1.PodPending, corev1.PodSucceeded, corev1.PodFailed, corev1.PodUnknown, "")},
	}
	if b.pick(3) == 1 {
		// Both sides count whole seconds: the ages stand on both sides of the limits 1 s and 60 s.
		age := oneOf(b, -30*time.Second, 0, time.Second, 2*time.Second-1, 2*time.Second, 60*time.Second, 61*time.Second-1,
			61*time.Second, 24*time.Hour)
		pod.DeletionTimestamp = &metav1.Time{Time: now.Add(-age)}
		if b.pick(8) == 7 {
			pod.DeletionTimestamp = &metav1.Time{}
		}
	}
	if b.pick(6) == 1 {
		pod.Annotations = map[string]string{oneOf(b, corev1.MirrorPodAnnotationKey, "kubernetes.io/config.source"): oneOf(b, "", "x")}
	}
	for range b.pick(4) {
		pod.OwnerReferences = append(pod.OwnerReferences, drawOwner(b))
	}
	for i := range b.pick(4) {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: fmt.Sprint(i), VolumeSource: oneOf(b,
			corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}},
			corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
			corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}},
			corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{}},
			corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{}})})
	}
	return pod
}

func drawOwner(b *bits) metav1.OwnerReference {
	yes, no := true, false
	if b.yes() { // chance alone makes few real ones
		return metav1.OwnerReference{
			APIVersion: "apps/v1", Kind: "DaemonSet", Name: oneOf(b, "agent", "missing", "forbidden", "broken"), Controller: &yes,
		}
	}
	return metav1.OwnerReference{
		APIVersion: oneOf(b, "apps/v1", "apps/v1", "apps/v1", "apps/v1beta2", "apps.kruise.io/v1alpha1", "v1", "a/b/c", ""),
		Kind:       oneOf(b, "DaemonSet", "DaemonSet", "ReplicaSet", "Node", "daemonset", ""),
		Name:       oneOf(b, "agent", "agent", "missing", "forbidden", "broken"),
		Controller: oneOf(b, &yes, &yes, &no, nil),
	}
}
