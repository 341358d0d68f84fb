package remediation_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine/remediation"
)

// A Machine that its own reconciler writes at the same time is judged again, and a ledger that another process has written is read again
// before anything is marked.
func TestAWriteOnAnOldVersionIsDecidedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, contract.V1Beta2)
	for _, name := range []string{"a", "b", "c", "d"} {
		w.machine(name, "zone-"+name)
	}
	check := w.check("workers")
	w.Create(check)
	r, mgr := w.reconciler(remediation.Options{})
	require.NoError(t, r.Index(t.Context()))
	w.Run(mgr)
	request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(check)}
	pass := func() string {
		if _, err := r.Reconcile(t.Context(), request); err != nil {
			return err.Error()
		}
		return ""
	}
	w.Eventually("be healthy", func() string {
		if text := pass(); text != "" || w.said("a") != healthy || w.checkState(check).CurrentHealthy.Or(0) != 4 {
			return "not yet: " + text
		}
		return ""
	})
	conflict := func(kind, name, subresource string) {
		w.Store.FailNext(func(r fake.Request) bool {
			return r.Verb == "patch" && r.GVK.Kind == kind && r.Name == name && r.Subresource == subresource && r.UserAgent == userAgent
		}, apierrors.NewConflict(schema.GroupResource{Resource: kind}, name, errors.New("the object has been modified")))
	}
	conflict(w.kinds.Check.GVK.Kind, "workers", "")
	conflict("Machine", "a", "status")
	w.becomes("a", corev1.ConditionUnknown, time.Hour)
	writes := func() int {
		return w.Store.CountRequests(func(r fake.Request) bool {
			return r.Verb == "patch" && r.GVK.Kind == "Machine" && r.UserAgent == userAgent && r.Code == 200
		})
	}
	before := writes()
	w.Eventually("be marked", func() string {
		if text := pass(); text != "" {
			t.Errorf("a conflict is no error: %s", text)
		}
		if got := w.said("a"); got != marked {
			return got
		}
		return ""
	})
	require.Equal(t, 1, writes()-before)
}

// A cache may be behind, as after an outage: what is marked is destroyed, so the server is asked first.
func TestAMachineIsMarkedOnlyWhenTheServerSaysThatItsNodeIsUnhealthy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, contract.V1Beta2)
	for _, name := range []string{"a", "b", "c", "d"} {
		w.machine(name, "")
	}
	w.ports = func(p *remediation.Ports) {
		p.Workload.APIReader = liveReader{p.Workload.APIReader, map[string]bool{"b": true}}
	}
	w.becomes("a", corev1.ConditionUnknown, time.Hour)
	w.becomes("b", corev1.ConditionUnknown, 2*time.Hour)
	check := w.check("workers")
	w.Create(check)
	stop := w.run(remediation.Options{})
	w.says(marked, "a")
	w.says(healthy, "c", "d")
	w.Never("mark a Machine whose Node the server has as ready", time.Second, func() string { return w.said("b") })
	stop()
	w.ports = nil
	w.run(remediation.Options{})
	w.says(marked, "b")
}

// rewrites gives a Machine its provider ID in another form than its Node has, as a provider of another version may.
func (w *world) rewrites(name string) {
	w.t.Helper()
	w.update(w.ref(name), contract.MachineUpdate{ProviderID: contract.SetTo("fake:///zone/" + name)})
}

// The set would delete the Machine, and its Node would not be drained.
func TestAMachineWhoseProviderIDIsWrittenInAnotherFormIsJudgedByItsNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t, contract.V1Beta2)
	for _, name := range []string{"a", "b", "c", "d"} {
		w.machine(name, "")
	}
	w.Create(w.check("workers"))
	w.run(remediation.Options{})
	w.says(healthy, "a", "b", "c", "d")
	w.rewrites("b")
	w.Never("mark a Machine whose Node is ready", time.Second, func() string {
		if got := w.said("b"); got != healthy {
			return got
		}
		return ""
	})
	w.becomes("b", corev1.ConditionUnknown, time.Hour)
	w.says(marked, "b")
}

// Nothing says whose the Node is that the API server has: no UID was recorded for the Machine, and its provider ID differs.
func TestAMachineWithoutARecordedUIDIsNotMarkedForANodeWithAnotherProviderID(t *testing.T) {
	t.Parallel()
	w := newWorld(t, contract.V1Beta2)
	for _, name := range []string{"a", "b", "c", "d"} {
		w.machine(name, "")
	}
	w.rewrites("b")
	w.update(w.ref("b"), contract.MachineUpdate{Node: contract.SetTo(contract.NodeRef{Name: "b"})})
	require.Empty(t, w.state("b").Node.UID)
	require.NoError(t, w.Client.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "b"}}))
	w.ports = func(p *remediation.Ports) {
		p.Workload.APIReader = liveReader{p.Workload.APIReader, map[string]bool{"b": true}}
	}
	w.Create(w.check("workers"))
	w.run(remediation.Options{})
	w.says(healthy, "a", "c", "d")
	w.Never("mark the Machine", time.Second, func() string { return w.said("b") })
}

// The replacement is there before the Machine is gone, and was made earlier than the ledger says that the Machine was marked.
func TestAReplacementTakesThePlaceOfAMachineThatAClockThatIsAheadHasMarked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, contract.V1Beta2)
	for _, name := range []string{"a", "b", "c"} {
		w.machine(name, "zone-"+name)
	}
	w.Change(w.ref("a"), func(u *unstructured.Unstructured) { u.SetFinalizers([]string{"example.com/drain"}) })
	check := w.check("workers", limited(int64(1)))
	w.Create(check)
	w.run(remediation.Options{Options: pass.Options{Clock: clocktesting.NewFakePassiveClock(time.Now().Add(3 * time.Minute))}})
	w.status(check, 3, 3, 1)
	w.becomes("a", corev1.ConditionUnknown, time.Hour)
	w.says(marked, "a")
	require.NoError(t, w.Client.Delete(t.Context(), w.Get(w.ref("a"))))
	time.Sleep(time.Until(w.state("c").Created.Add(time.Second))) // times of the API server have no fractions
	w.machine("replacement", "zone-a")
	w.says(healthy, "replacement")
	w.becomes("b", corev1.ConditionUnknown, 2*time.Hour)
	w.says(held, "b")
	w.Change(w.ref("a"), func(u *unstructured.Unstructured) { u.SetFinalizers(nil) })
	w.says(marked, "b")
}
