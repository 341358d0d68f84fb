//go:build e2e

package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/machinist-dev/machinist/examples/lab/cluster"
	"github.com/machinist-dev/machinist/examples/lab/rights"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	v1 "example.com/edge/v1"
)

const (
	e2eServers  = 12
	e2eGateways = 4
	e2ePods     = 24
)

// site is a real control plane with the operator, which has the rights of rbac.go and no others.
type site struct {
	*rack

	plane *cluster.ControlPlane
	user  *rights.User
}

func newSite(t *testing.T) *site {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Minute) // a cold build
	defer cancel()
	plane, err := cluster.Start(ctx, cluster.Options{Log: os.Stderr})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, plane.Stop()) })
	require.NoError(t, cluster.InstallCRDs(ctx, plane.Config(), crdObjects(t)...))
	scheme, err := newScheme()
	require.NoError(t, err)
	admin, err := client.New(plane.Config(), client.Options{Scheme: scheme})
	require.NoError(t, err)
	s := &site{rack: &rack{t: t, client: admin, consoles: &consoles{client: admin}}, plane: plane}
	s.user, err = rights.Grant(ctx, plane, operatorName, rights.Asked{Cluster: rules()})
	require.NoError(t, err)
	s.startOperator()
	return s
}

func (s *site) startOperator() {
	s.t.Helper()
	scheme, err := newScheme()
	require.NoError(s.t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.t.Context()))
	mgr, err := newManager(ctx, s.user.Config(), ctrl.Options{
		Scheme: scheme, Logger: logr.Discard(), Metrics: server.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true), UsePriorityQueue: new(false)},
	}, s.consoles)
	require.NoError(s.t, err)
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	s.t.Cleanup(func() {
		cancel()
		require.NoError(s.t, <-done)
	})
}

func TestE2EBoxesServeAndRetireOnARealControlPlane(t *testing.T) {
	s := newSite(t)
	var all []client.Object
	for i := range e2eServers {
		all = append(all, newServer(fmt.Sprintf("server-%d", i)))
	}
	for i := range e2eGateways {
		all = append(all, newGateway(fmt.Sprintf("gateway-%d", i)))
	}
	began := time.Now()
	for _, box := range all {
		require.NoError(t, s.client.Create(t.Context(), box))
	}
	for _, box := range all {
		s.comesTo(box, "Serving", "HostReady", "")
	}
	t.Logf("%d boxes serve after %s", len(all), time.Since(began).Round(10*time.Millisecond))
	s.runPods()

	leaving := []client.Object{all[0], all[1], all[2], all[e2eServers], all[e2eServers+1]}
	onThem := s.pods(leaving)
	require.Positive(t, onThem)
	began = time.Now()
	for _, box := range leaving {
		require.NoError(t, s.client.Delete(t.Context(), box))
	}
	for _, box := range leaving {
		s.goes(box)
		s.goes(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: box.GetName()}})
		pods, off := s.consoles.switchedOff(box.GetName())
		require.True(t, off)
		require.Zero(t, pods, "pods leave %s before the power does", box.GetName())
	}
	t.Logf("%d boxes with %d pods are gone after %s", len(leaving), onThem, time.Since(began).Round(10*time.Millisecond))
	s.podsRun()
	eventually(t, "the inventory", func() string {
		list := &corev1.ConfigMap{}
		require.NoError(t, s.client.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: inventoryName}, list))
		if len(list.Data) != e2eServers-3 {
			return fmt.Sprint(list.Data)
		}
		return ""
	})
	s.everythingWasAllowed()
}

// runPods spreads pods over the boxes, with a budget, and waits until they run.
func (s *site) runPods() {
	s.t.Helper()
	labels := map[string]string{"app": "web"}
	require.NoError(s.t, s.client.Create(s.t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: named("web"),
		Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromInt32(3)),
			Selector: &metav1.LabelSelector{MatchLabels: labels}},
	}))
	require.NoError(s.t, s.client.Create(s.t.Context(), &appsv1.Deployment{
		ObjectMeta: named("web"),
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(e2ePods)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
			},
		},
	}))
	s.podsRun()
}

func (s *site) podsRun() {
	s.t.Helper()
	eventually(s.t, "all pods to run", func() string {
		web := &appsv1.Deployment{}
		require.NoError(s.t, s.client.Get(s.t.Context(), client.ObjectKey{Namespace: "default", Name: "web"}, web))
		if web.Status.AvailableReplicas != e2ePods {
			return fmt.Sprintf("%d do", web.Status.AvailableReplicas)
		}
		return ""
	})
}

// pods counts those on some boxes.
func (s *site) pods(boxes []client.Object) int {
	s.t.Helper()
	var pods corev1.PodList
	require.NoError(s.t, s.client.List(s.t.Context(), &pods))
	count := 0
	for _, pod := range pods.Items {
		for _, box := range boxes {
			if pod.Spec.NodeName == box.GetName() {
				count++
			}
		}
	}
	return count
}

// everythingWasAllowed: the rights of rbac.go are enough, and none of them is too much.
func (s *site) everythingWasAllowed() {
	s.t.Helper()
	report, err := s.user.Report()
	require.NoError(s.t, err)
	require.Empty(s.t, report.Problems(map[string]string{
		"patch events.k8s.io/events": "only an event that comes again is patched",
		"delete pods":                "only the grace period of pods whose host does not answer is shortened",
		"get nodes":                  "only a recorded host that the cache does not show is asked for",
	}))
	events, err := s.plane.Audit().Events()
	require.NoError(s.t, err)
	ours := events.Where(func(e cluster.AuditEvent) bool { return e.User == operatorName })
	require.NotEmpty(s.t, ours)
	s.t.Logf("writes of the operator:\n%s", ours.Writes())
	require.Empty(s.t, ours.Writes().Where(func(e cluster.AuditEvent) bool {
		return e.Group == v1.Group && e.Code >= 300 && e.Code != http.StatusConflict
	}))
}
