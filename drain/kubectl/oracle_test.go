package kubectl

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	appsv1client "k8s.io/client-go/kubernetes/typed/apps/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	kubectldrain "k8s.io/kubectl/pkg/drain"
)

const oracleNode = "node-a"

// memory answers the three calls that a Helper makes to classify pods. Any other call is a nil dereference.
type memory struct {
	kubernetes.Interface
	pods       []*corev1.Pod
	daemonSets func(namespace, name string) (*appsv1.DaemonSet, error)
}

func (m memory) CoreV1() corev1client.CoreV1Interface { return memoryCore{m: m} }
func (m memory) AppsV1() appsv1client.AppsV1Interface { return memoryApps{m: m} }

type memoryCore struct {
	corev1client.CoreV1Interface
	m memory
}

func (c memoryCore) Pods(string) corev1client.PodInterface { return memoryPods{m: c.m} }

type memoryPods struct {
	corev1client.PodInterface
	m memory
}

func (p memoryPods) List(_ context.Context, o metav1.ListOptions) (*corev1.PodList, error) {
	if o.FieldSelector != "spec.nodeName="+oracleNode {
		return nil, fmt.Errorf("unexpected field selector %q", o.FieldSelector)
	}
	selector, err := labels.Parse(o.LabelSelector)
	if err != nil {
		return nil, err
	}
	list := &corev1.PodList{}
	for _, pod := range p.m.pods {
		if selector.Matches(labels.Set(pod.Labels)) {
			list.Items = append(list.Items, *pod.DeepCopy())
		}
	}
	return list, nil
}

type memoryApps struct {
	appsv1client.AppsV1Interface
	m memory
}

func (a memoryApps) DaemonSets(namespace string) appsv1client.DaemonSetInterface {
	return memoryDaemonSets{m: a.m, namespace: namespace}
}

type memoryDaemonSets struct {
	appsv1client.DaemonSetInterface
	m         memory
	namespace string
}

func (d memoryDaemonSets) Get(_ context.Context, name string, _ metav1.GetOptions) (*appsv1.DaemonSet, error) {
	if d.m.daemonSets == nil {
		return &appsv1.DaemonSet{}, nil
	}
	return d.m.daemonSets(d.namespace, name)
}

// opinion is what kubectl lets one see of its verdicts about pods.
type opinion struct {
	deletes  []string // in its order
	errors   []string
	warnings string
}

// askKubectl lets kubectl's own code classify pods.
func askKubectl(o *Options, selector string, pods ...*corev1.Pod) opinion {
	h := kubectldrain.Helper{
		Client:                          memory{pods: pods, daemonSets: o.DaemonSets},
		Force:                           o.Force,
		IgnoreAllDaemonSets:             o.IgnoreAllDaemonSets,
		DeleteEmptyDirData:              o.DeleteEmptyDirData,
		PodSelector:                     selector,
		SkipWaitForDeleteTimeoutSeconds: int(o.SkipWaitForDeleteTimeout.Seconds()),
		AdditionalFilters:               o.AdditionalFilters,
	}
	list, errs := h.GetPodsForDeletion(oracleNode)
	var said opinion
	for _, err := range errs {
		// kubectl before v0.36 says it twice of Pods without a controller.
		said.errors = append(said.errors, strings.Replace(err.Error(), "cannot delete cannot delete ", "cannot delete ", 1))
	}
	if list == nil {
		return said
	}
	for _, pod := range list.Pods() {
		said.deletes = append(said.deletes, pod.Namespace+"/"+pod.Name)
	}
	said.warnings = list.Warnings()
	return said
}

// warningOf cuts the name off what kubectl warns of about one pod.
func warningOf(said opinion, pod *corev1.Pod) string {
	return strings.TrimSuffix(said.warnings, ": "+pod.Namespace+"/"+pod.Name)
}
