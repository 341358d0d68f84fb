package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "example.com/edge/v1"
)

// EdgeGateways have no status subresource, and a reconciler of their own in the same process.
func boxes() map[string]func(string) v1.Box {
	return map[string]func(string) v1.Box{
		"server":  func(name string) v1.Box { return newServer(name) },
		"gateway": func(name string) v1.Box { return newGateway(name) },
	}
}

func TestABoxServesAndRetires(t *testing.T) {
	for kind, newBox := range boxes() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			r := newRack(t)
			box := newBox("a")
			require.NoError(t, r.client.Create(t.Context(), box))
			r.comesTo(box, "Serving", "HostReady", "")
			host := &corev1.Node{}
			require.NoError(t, r.client.Get(t.Context(), types.NamespacedName{Name: "a"}, host))
			_, report := box.Parts()
			require.Equal(t, v1.Report{Host: "a", HostUID: host.UID}, v1.Report{Host: report.Host, HostUID: report.HostUID})
			require.Equal(t, []string{finalizer}, box.GetFinalizers())
			require.Empty(t, box.GetLabels())

			r.load("a")
			require.NoError(t, r.client.Delete(t.Context(), box))
			r.goes(box)
			r.goes(host)
			pods, off := r.consoles.switchedOff("a")
			require.True(t, off)
			require.Zero(t, pods, "pods leave before the power does")
			require.Equal(t, 1, r.store.CountRequests(func(q fake.Request) bool { return q.Subresource == "eviction" }))
			noWriteWasRejected(t, r.store)
		})
	}
}

func noWriteWasRejected(t *testing.T, store *fake.Store) {
	t.Helper()
	for _, q := range store.Requests() {
		if strings.Contains(q.UserAgent, operatorName) && q.IsWrite() && q.Code >= 300 && q.GVK.Kind != "Event" && q.GVK.Kind != "ConfigMap" {
			t.Errorf("a write was rejected: %+v", q)
		}
	}
}

func TestEveryStageSaysWhatABoxWaitsFor(t *testing.T) {
	for kind, newBox := range boxes() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			r := newRack(t)
			box := newBox("b")
			r.consoles.set(errors.New("the console does not answer"), false)
			require.NoError(t, r.client.Create(t.Context(), box))
			r.comesTo(box, "Racked", "SwitchedOff", "Power")
			r.consoles.set(nil, true)
			r.comesTo(box, "Booting", "NoHost", "Node")

			host := fake.Node("b", "edge://b")
			fake.SetNodeCondition(host, corev1.NodeReady, corev1.ConditionFalse, time.Now())
			require.NoError(t, r.client.Create(t.Context(), host))
			r.isReady(host, corev1.ConditionFalse)
			r.comesTo(box, "Settling", "HostNotReady", "Health")
			r.isReady(host, corev1.ConditionTrue)
			r.comesTo(box, "Serving", "HostReady", "")
			r.isReady(host, corev1.ConditionFalse)
			r.comesTo(box, "Settling", "HostNotReady", "Health")
			r.isReady(host, corev1.ConditionTrue)

			hook, hold := contract.PreDrainHook+"/another", contract.PreTerminateHook+"/another"
			r.change(box, func() {
				box.SetAnnotations(map[string]string{hook: "", hold: ""})
				box.SetFinalizers(append(box.GetFinalizers(), "example.com/hold"))
			})
			require.NoError(t, r.client.Delete(t.Context(), box))
			r.comesTo(box, "Retiring", "PodsLeave", "Deletion")
			_, off := r.consoles.switchedOff("b")
			require.False(t, off)
			r.consoles.set(errors.New("the console does not answer"), false)
			r.change(box, func() { box.SetAnnotations(nil) })
			r.cannotBeSwitchedOff(box)
			r.consoles.set(nil, false)
			r.comesTo(box, "Dark", "SwitchedOff", "Deletion")
			r.goes(host)
			r.change(box, func() { box.SetFinalizers(nil) })
			r.goes(box)
		})
	}
}

// cannotBeSwitchedOff: a box that may be on still is not called dark.
func (r *rack) cannotBeSwitchedOff(box v1.Box) {
	r.t.Helper()
	eventually(r.t, "the console to fail", func() string {
		require.NoError(r.t, r.client.Get(r.t.Context(), client.ObjectKeyFromObject(box), box))
		_, report := box.Parts()
		if !meta.IsStatusConditionPresentAndEqual(report.Conditions, poweredOn, metav1.ConditionUnknown) {
			return fmt.Sprint(report.Conditions)
		}
		return ""
	})
	_, report := box.Parts()
	require.Equal(r.t, "Retiring", report.Stage)
}

// isReady has a host report whether it is Ready.
func (r *rack) isReady(host *corev1.Node, ready corev1.ConditionStatus) {
	r.t.Helper()
	require.NoError(r.t, r.client.Get(r.t.Context(), client.ObjectKeyFromObject(host), host))
	base := host.DeepCopy()
	host.Status.Conditions = nil
	for kind, status := range map[corev1.NodeConditionType]corev1.ConditionStatus{
		corev1.NodeReady: ready, corev1.NodeMemoryPressure: "False", corev1.NodeDiskPressure: "False", corev1.NodePIDPressure: "False",
	} {
		host.Status.Conditions = append(host.Status.Conditions, corev1.NodeCondition{Type: kind, Status: status, Reason: "Test"})
	}
	require.NoError(r.t, r.client.Status().Patch(r.t.Context(), host, client.MergeFrom(base)))
}

func TestAServerAndAGatewayOfOneNameAreTwoBoxes(t *testing.T) {
	t.Parallel()
	r := newRack(t)
	server, gateway := newServer("c"), newGateway("c")
	gateway.Spec = hardware("d")
	require.NoError(t, r.client.Create(t.Context(), server))
	require.NoError(t, r.client.Create(t.Context(), gateway))
	r.comesTo(server, "Serving", "HostReady", "")
	r.comesTo(gateway, "Serving", "HostReady", "")
	require.Equal(t, []string{"c", "d"}, []string{server.Status.Host, gateway.Status.Host})
	require.NoError(t, r.client.Delete(t.Context(), gateway))
	r.goes(gateway)
	require.NoError(t, r.client.Get(t.Context(), client.ObjectKey{Name: "c"}, &corev1.Node{}))
	r.comesTo(server, "Serving", "HostReady", "")
}

func TestTheOtherControllerGoesOn(t *testing.T) {
	t.Parallel()
	r := newRack(t)
	server := newServer("e")
	require.NoError(t, r.client.Create(t.Context(), server))
	eventually(t, "the server in the inventory", func() string {
		list := &corev1.ConfigMap{}
		_ = r.client.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: inventoryName}, list)
		if list.Data["e"] != "e in rack 7: Serving" {
			return "it says " + list.Data["e"]
		}
		return ""
	})
}

func TestABoxThatServesCostsNothing(t *testing.T) {
	t.Parallel()
	r := newRack(t)
	for kind, newBox := range boxes() {
		box := newBox(kind)
		require.NoError(t, r.client.Create(t.Context(), box))
		r.comesTo(box, "Serving", "HostReady", "")
	}
	quiet := 0
	eventually(t, "silence", func() string {
		if r.store.CountRequests(func(q fake.Request) bool { return strings.Contains(q.UserAgent, operatorName) && q.Verb != "watch" }) > 0 {
			quiet = 0
			r.store.ResetRequests()
			return "there are requests"
		}
		time.Sleep(200 * time.Millisecond)
		if quiet++; quiet < 8 { // more than a status delay
			return "not for long enough"
		}
		return ""
	})
}

func TestAllOtherStepsAreMachinists(t *testing.T) {
	t.Parallel()
	steps, err := boxSteps(&consoles{})
	require.NoError(t, err)
	names := map[string]bool{}
	for _, s := range steps {
		names[s.Name] = true
	}
	for _, s := range machine.Steps() {
		changed := s.Name == machine.StepBootstrap || s.Name == machine.StepInfrastructure || s.Name == machine.StepDeleteInfrastructure
		require.Equal(t, !changed, names[s.Name], s.Name)
	}
}
