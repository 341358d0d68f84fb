package machine_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
)

const (
	// killedStatusDelay keeps the many runs of this file short.
	killedStatusDelay = 50 * time.Millisecond
	// killedAtATime is how many of them there are at a time.
	killedAtATime = 16
)

// TestAProcessThatIsKilledAtAnyWriteIsContinuedToTheSameEnd kills the reconciler's process right before and right after each
// of its writes, first of a Machine on its way to Running, then of one in deletion, and lets a new process go on. How many
// writes there are is counted in an undisturbed run, whose end is the one that all others must have.
func TestAProcessThatIsKilledAtAnyWriteIsContinuedToTheSameEnd(t *testing.T) {
	t.Parallel()
	ctrl.SetLogger(logr.Discard())
	undisturbed := newMortal(t, "m1")
	first := undisturbed.start("first")
	undisturbed.create()
	undisturbed.settles()
	running, toRunning := undisturbed.picture(), first.writes()
	undisturbed.delete()
	undisturbed.leavesNothing()
	toGone := first.writes() - toRunning
	undisturbed.removedOnce(first)
	t.Logf("%d writes to Running, %d to be gone", toRunning, toGone)
	require.Greater(t, toRunning, 3, "too few writes to be true: are they counted?")
	require.Greater(t, toGone, 3, "too few writes to be true: are they counted?")

	var runs sync.WaitGroup
	var afterDrain atomic.Int32
	places := make(chan struct{}, killedAtATime)
	run := func(name string, test func(*testing.T)) {
		runs.Go(func() { // not t.Parallel, which allows as many as there are processors, and these runs mostly wait
			places <- struct{}{}
			defer func() { <-places }()
			t.Run(name, test)
		})
	}
	for _, applied := range []bool{false, true} {
		when := map[bool]string{false: "before", true: "after"}[applied]
		for k := 1; k <= toRunning; k++ {
			run(fmt.Sprintf("on the way to Running %s write %d", when, k), func(t *testing.T) { killedOnTheWay(t, k, applied, running) })
		}
		for k := 1; k <= toGone; k++ {
			run(fmt.Sprintf("in deletion %s write %d", when, k), func(t *testing.T) {
				if killedInDeletion(t, k, applied) {
					afterDrain.Add(1)
				}
			})
		}
	}
	runs.Wait()
	require.Positive(t, afterDrain.Load(),
		"no process was killed between the record of the drain and the end, so nothing is known of a second drain")
}

// killedOnTheWay kills the process at its kth write, and compares the end with that of an undisturbed run.
func killedOnTheWay(t *testing.T, k int, applied bool, undisturbed map[string]any) {
	m := newMortal(t, "m1")
	first := m.start("first")
	first.dieAt(k, applied)
	m.create()
	m.continues(first, m.settled, func() {})
	m.settles()
	require.Empty(t, cmp.Diff(undisturbed, m.picture()), "the end after a kill %s (-undisturbed +killed)", first.lastWrite())
}

// killedInDeletion kills the process at its kth write since the Machine was deleted, with pods on its Node, and returns whether
// the drain was on record then and the Node was still there.
func killedInDeletion(t *testing.T, k int, applied bool) (drained bool) {
	t.Helper()
	m := newMortal(t, "m1")
	first := m.start("first")
	m.create()
	m.settles()
	m.runPods("early-1", "early-2")
	first.dieAt(first.writes()+k, applied)
	m.Delete(m.machine)
	second := m.continues(first, m.isGone, func() { drained = m.drained() })
	m.leavesNothing()
	m.removedOnce(first, second)
	if n := second.count(isDrain); drained && n > 0 {
		t.Errorf("killed %s, when the drain was over and on record: %d requests drain once more", first.lastWrite(), n)
	}
	return drained
}

// isDrain matches what only a drain writes; the Node stays cordoned by the first one.
func isDrain(r fake.Request) bool { return r.GVK.Kind == "Pod" }

// continues waits for a process to die, or for an end that it can also reach when its writes are fewer than those of another
// run; it then does something in between and starts the next process.
func (m *mortal) continues(p *process, end func() string, between func()) *process {
	m.t.Helper()
	m.Eventually("the process to die", func() string {
		select {
		case <-p.dead:
			return ""
		default:
			return end()
		}
	})
	p.stop()
	between()
	return m.start("second")
}

// settled says why the Machine is not yet what it is to become.
func (m *mortal) settled() string {
	m.t.Helper()
	fresh := m.Get(m.machine)
	if conditionOf(fresh, contract.ConditionReady).Status != metav1.ConditionTrue {
		return "it is not Ready: " + describe(fresh)
	}
	return m.atRest()
}

// atRest says why requests may follow.
func (m *mortal) atRest() string { return m.calm.For(m.ownRequests(), 4*killedStatusDelay) }

func (m *mortal) ownRequests() int {
	return m.store.CountRequests(func(r fake.Request) bool { return strings.HasPrefix(r.UserAgent, userAgent) && r.Verb != "watch" })
}

func (m *mortal) settles() {
	m.t.Helper()
	m.Eventually("the Machine to be Ready and left alone", m.settled)
}

func (m *mortal) isGone() string {
	m.t.Helper()
	if fresh := m.Get(m.machine); fresh != nil {
		return "it is still there: " + describe(fresh)
	}
	return ""
}

// leavesNothing waits until the Machine is gone, with everything that was made for it.
func (m *mortal) leavesNothing() {
	m.t.Helper()
	m.Eventually("the Machine to go", m.isGone)
	m.Eventually("everything else to go", func() string {
		for _, obj := range m.belongings() {
			if m.Get(obj) != nil {
				return obj.GetKind() + " " + obj.GetName() + " is still there"
			}
		}
		return ""
	})
}

// belongings are the objects that come and go with the Machine.
func (m *mortal) belongings() []*unstructured.Unstructured {
	name := m.machine.GetName()
	all := []*unstructured.Unstructured{fake.InfraMachine(contract.V1Beta2, name), fake.BootstrapConfig(contract.V1Beta2, name)}
	for _, kind := range []string{"Node", "Secret"} {
		obj := &unstructured.Unstructured{}
		obj.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
		obj.SetName(name)
		if kind == "Secret" {
			obj.SetNamespace("default")
		}
		all = append(all, obj)
	}
	return all
}

// removedOnce checks that what one process has asked to be deleted is not asked for by another one again.
func (m *mortal) removedOnce(processes ...*process) {
	m.t.Helper()
	for _, kind := range []schema.GroupVersionKind{
		fake.InfraMachineGVK(contract.V1Beta2), fake.BootstrapConfigGVK(contract.V1Beta2), corev1.SchemeGroupVersion.WithKind("Node"),
	} {
		var asked []string
		for _, p := range processes {
			if p.count(func(r fake.Request) bool { return r.Verb == "delete" && r.GVK.Kind == kind.Kind }) > 0 {
				asked = append(asked, p.agent)
			}
		}
		require.Len(m.t, asked, 1, "killed %s", processes[0].lastWrite())
	}
}

// drained reports whether it is on record that the drain is over, in the Machine or by the deletion of its infrastructure, and the
// Node is there; then it runs one more pod, which a second drain would evict.
func (m *mortal) drained() bool {
	m.t.Helper()
	fresh := m.Get(m.machine)
	if fresh == nil || m.node(m.machine.GetName()) == nil {
		return false
	}
	var state contract.MachineState
	require.NoError(m.t, m.options.kind.Adapter.Read(fresh, &state))
	infra := m.Get(fake.InfraMachine(contract.V1Beta2, m.machine.GetName()))
	if state.Deletion(time.Now()).Stages[contract.StageDrain].End.IsZero() && infra != nil && infra.GetDeletionTimestamp() == nil {
		return false
	}
	m.runPods("late")
	return true
}

// runPods places pods on the Machine's Node and waits until they are ready.
func (m *mortal) runPods(names ...string) {
	m.t.Helper()
	for _, name := range names {
		m.world.Create(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": "killed"}},
			Spec:       corev1.PodSpec{NodeName: m.machine.GetName(), Containers: []corev1.Container{{Name: "c", Image: "example.com/app"}}},
		})
	}
	m.Until("pods to be ready", func() bool { return len(m.readyPods("killed")) >= len(names) })
}
