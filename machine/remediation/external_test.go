package remediation_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machine/remediation"
)

// What a Machine says with a request for its remediation, and without.
const (
	requested = held + " ExternallyRemediated=False/WaitingForRemediation"
	untold    = held + " ExternallyRemediated=False/"
)

func requestGVK() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "remediation.example.com", Version: "v1alpha1", Kind: "PowerCycle"}
}

func templateGVK() schema.GroupVersionKind {
	return requestGVK().GroupVersion().WithKind("PowerCycleTemplate")
}

// remedied is a world whose check has a template. Its CRDs have no contract label: the check names their version.
func remedied(t *testing.T, version contract.Version, unhealthy ...string) (*world, *unstructured.Unstructured) {
	t.Helper()
	w := newWorld(t, version)
	return w, w.remedied(unhealthy...)
}

func (w *world) remedied(unhealthy ...string) *unstructured.Unstructured {
	w.t.Helper()
	for i, name := range []string{"a", "b", "c", "d", "e"} {
		w.machine(name, "zone-"+name)
		for _, one := range unhealthy {
			if one == name {
				w.becomes(name, corev1.ConditionUnknown, time.Duration(i+1)*time.Hour)
			}
		}
	}
	ref := map[string]any{"apiVersion": templateGVK().GroupVersion().String(), "kind": templateGVK().Kind, "name": "cycle"}
	place := []string{"spec", "remediation", "templateRef"}
	if w.version == contract.V1Beta1 {
		place = []string{"spec", "remediationTemplate"}
	}
	return w.check("workers", fake.WithField(ref, place...))
}

func (w *world) serveRemedies() {
	w.t.Helper()
	w.Create(fake.CRD(requestGVK()), fake.CRD(templateGVK()))
}

func template() *unstructured.Unstructured {
	u := testenv.Object(templateGVK(), "cycle")
	u.Object["spec"] = map[string]any{"template": map[string]any{"spec": map[string]any{"retries": int64(3)}}}
	return u
}

func request(name string) *unstructured.Unstructured { return testenv.Object(requestGVK(), name) }

// byUID is a client that fails a test when an object is deleted without its UID: another one may have its name since.
type byUID struct {
	client.Client

	t *testing.T
}

func (c byUID) Delete(ctx context.Context, obj client.Object, o ...client.DeleteOption) error {
	live, _ := obj.DeepCopyObject().(client.Object)
	err := c.Get(ctx, client.ObjectKeyFromObject(obj), live)
	only := (&client.DeleteOptions{}).ApplyOptions(o).Preconditions
	if only == nil || only.UID == nil || err == nil && *only.UID != live.GetUID() {
		c.t.Errorf("%s is deleted by its name", obj.GetName()) // the test's own goroutine is another one
	}
	return c.Client.Delete(ctx, obj, o...)
}

func TestARequestIsMadeFromATemplateAndDeletedWhenTheMachineIsHealthyAgain(t *testing.T) {
	for _, version := range []contract.Version{contract.V1Beta1, contract.V1Beta2} {
		t.Run(string(version), func(t *testing.T) {
			t.Parallel()
			w, check := remedied(t, version, "b", "d")
			w.ports = func(p *remediation.Ports) { p.Client = byUID{p.Client, t} }
			w.serveRemedies()
			w.Create(template(), check)
			w.run(remediation.Options{})
			w.reports(requested, "b", "d")
			w.reports(healthy, "a", "c", "e")
			w.status(check, 5, 3, 3) // requests keep counting as unhealthy
			made := w.Get(request("b"))
			require.Equal(t, map[string]any{"retries": int64(3)}, made.Object["spec"])
			require.Equal(t, "demo", made.GetLabels()[contract.ClusterNameLabel])
			require.Equal(t, "cycle", made.GetAnnotations()[contract.ClonedFromNameAnnotation])
			require.Len(t, made.GetOwnerReferences(), 1)
			owner := made.GetOwnerReferences()[0]
			require.Equal(t, w.Get(w.ref("b")).GetUID(), owner.UID)
			require.Equal(t, w.kinds.Machine.GVK.GroupVersion().String(), owner.APIVersion)
			require.Nil(t, owner.Controller)

			w.becomes("b", corev1.ConditionTrue, time.Minute)
			w.reports(healthy, "b")
			w.Gone(request("b"))
			require.NotNil(t, w.Get(request("d")))
			w.Quiet(userAgent, time.Second)
		})
	}
}

// The one who remediates deletes its request when it is done, and this process's own write may have failed after it has done so.
func TestTheConditionOfARequestEndsWithIt(t *testing.T) {
	t.Parallel()
	w, check := remedied(t, contract.V1Beta2, "b", "d")
	w.serveRemedies()
	w.Create(template(), check)
	w.run(remediation.Options{})
	w.reports(requested, "b", "d")
	w.Store.FailNext(func(r fake.Request) bool { return r.Verb == "patch" && r.Name == "d" && r.UserAgent == userAgent },
		apierrors.NewConflict(schema.GroupResource{Resource: "machines"}, "d", errors.New("it has changed")))
	w.Delete(request("b"))
	w.becomes("b", corev1.ConditionTrue, time.Minute)
	w.becomes("d", corev1.ConditionTrue, time.Minute)
	w.reports(healthy, "b", "d")
	w.Gone(request("b"), request("d"))
}

// Two remediate a Machine at once otherwise: the one who has the request, and its owner, or the one for whom there is a new template.
func TestRequestsEndBeforeAnotherIsAskedWhenTheTemplateIsTakenOutOfACheckOrReplaced(t *testing.T) {
	other := map[string]any{"apiVersion": "remediation.example.com/v1alpha1", "kind": "RebuildTemplate", "name": "rebuild"}
	for name, ref := range map[string]map[string]any{"taken out": nil, "replaced": other} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, check := remedied(t, contract.V1Beta2, "b", "d")
			w.serveRemedies()
			rebuild := schema.GroupVersionKind{Group: "remediation.example.com", Version: "v1alpha1", Kind: "Rebuild"}
			w.Create(fake.CRD(rebuild), fake.CRD(rebuild.GroupVersion().WithKind("RebuildTemplate")))
			made := testenv.Object(rebuild.GroupVersion().WithKind("RebuildTemplate"), "rebuild")
			made.Object["spec"] = map[string]any{"template": map[string]any{"spec": map[string]any{}}}
			w.Create(template(), made, check)
			w.run(remediation.Options{})
			w.reports(requested, "b", "d")

			running := request("d")
			w.Change(running, func(u *unstructured.Unstructured) { u.SetFinalizers([]string{"remediation.example.com/running"}) })
			w.Change(check, func(u *unstructured.Unstructured) {
				unstructured.RemoveNestedField(u.Object, "spec", "remediation", "templateRef")
				if ref != nil {
					require.NoError(t, unstructured.SetNestedMap(u.Object, ref, "spec", "remediation", "templateRef"))
				}
			})
			next := marked
			if ref != nil {
				next = requested
			}
			w.Gone(request("b"))
			asks := func(name string) {
				w.reports(next, name)
				w.Eventually("the next request for "+name, func() string {
					return map[bool]string{true: "differs"}[exists(w, rebuild, name) != (ref != nil)]
				})
			}
			asks("b")
			w.Quiet(userAgent, time.Second)
			require.NotNil(t, w.Get(running).GetDeletionTimestamp(), "it is at work")
			w.reports(requested, "d")
			require.False(t, exists(w, rebuild, "d"))
			w.status(check, 5, 3, 3)

			w.Change(running, func(u *unstructured.Unstructured) { u.SetFinalizers(nil) })
			asks("d")
			w.Quiet(userAgent, time.Second)
		})
	}
}

// Requests have the names of their Machines. Others of the kind are somebody else's, whoever owns them.
func TestAnObjectOfAFormerKindWithAnotherNameIsNotDeleted(t *testing.T) {
	t.Parallel()
	w, check := remedied(t, contract.V1Beta2, "b")
	w.serveRemedies()
	w.Create(template(), check)
	w.run(remediation.Options{})
	w.reports(requested, "b")
	others := request("by-hand")
	others.SetOwnerReferences(w.Get(request("b")).GetOwnerReferences())
	w.Create(others)
	w.Change(check, func(u *unstructured.Unstructured) {
		unstructured.RemoveNestedField(u.Object, "spec", "remediation", "templateRef")
	})
	w.Gone(request("b"))
	w.reports(marked, "b")
	require.True(t, exists(w, requestGVK(), "by-hand"))
}

// Templates may change again while a request of the first one is at work.
func TestRequestsOfEachFormerTemplateEndBeforeAnotherIsAsked(t *testing.T) {
	t.Parallel()
	w, check := remedied(t, contract.V1Beta2, "b")
	w.serveRemedies()
	rebuild := requestGVK().GroupVersion().WithKind("Rebuild")
	w.Create(fake.CRD(rebuild), fake.CRD(rebuild.GroupVersion().WithKind("RebuildTemplate")))
	made := testenv.Object(rebuild.GroupVersion().WithKind("RebuildTemplate"), "rebuild")
	made.Object["spec"] = map[string]any{"template": map[string]any{"spec": map[string]any{}}}
	w.Create(template(), made, check)
	w.run(remediation.Options{})
	w.reports(requested, "b")
	works := func(u *unstructured.Unstructured) { u.SetFinalizers([]string{"remediation.example.com/running"}) }
	w.Change(request("b"), works)
	w.Change(check, func(u *unstructured.Unstructured) {
		require.NoError(t, unstructured.SetNestedMap(u.Object, map[string]any{"apiVersion": rebuild.GroupVersion().String(),
			"kind": "RebuildTemplate", "name": "rebuild"}, "spec", "remediation", "templateRef"))
	})
	w.becomes("d", corev1.ConditionUnknown, time.Hour)
	w.reports(requested, "b", "d")
	second := testenv.Object(rebuild, "d")
	w.Eventually("the second template's request", func() string { return map[bool]string{false: "none"}[exists(w, rebuild, "d")] })
	w.Change(second, works)
	w.Change(check, func(u *unstructured.Unstructured) {
		unstructured.RemoveNestedField(u.Object, "spec", "remediation", "templateRef")
	})
	for _, running := range []*unstructured.Unstructured{request("b"), second} {
		w.Eventually("the request is asked to end", func() string {
			return map[bool]string{true: "it is not"}[w.Get(running).GetDeletionTimestamp() == nil]
		})
	}
	w.Quiet(userAgent, time.Second)
	w.reports(requested, "b", "d")
	for _, running := range []*unstructured.Unstructured{request("b"), second} {
		w.Change(running, func(u *unstructured.Unstructured) { u.SetFinalizers(nil) })
		w.reports(marked, running.GetName())
	}
}

// A cache that is behind lacks a request that another still works on: both would remediate the Machine.
func TestARequestThatTheCacheDoesNotHaveYetIsOne(t *testing.T) {
	for name, unhealthy := range map[string][]string{"beside one that it has": {"b", "d"}, "alone": {"d"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorldWith(t, contract.V1Beta2, fake.Options{CacheLagFunc: func(kind schema.GroupKind, key types.NamespacedName) time.Duration {
				return map[bool]time.Duration{true: 2 * time.Second}[kind == requestGVK().GroupKind() && key.Name == "d"]
			}})
			check := w.remedied(unhealthy...)
			w.serveRemedies()
			w.Create(template(), check)
			w.run(remediation.Options{})
			w.reports(requested, unhealthy...)
			running := request("d")
			w.Change(running, func(u *unstructured.Unstructured) { u.SetFinalizers([]string{"remediation.example.com/running"}) })
			w.Change(check, func(u *unstructured.Unstructured) {
				unstructured.RemoveNestedField(u.Object, "spec", "remediation", "templateRef")
			})
			w.Eventually("the request is asked to end", func() string {
				return map[bool]string{true: "it is not"}[w.Get(running).GetDeletionTimestamp() == nil]
			})
			w.Quiet(userAgent, time.Second)
			w.reports(requested, "d")
			w.Change(running, func(u *unstructured.Unstructured) { u.SetFinalizers(nil) })
			w.reports(marked, unhealthy...)
		})
	}
}

func exists(w *world, kind schema.GroupVersionKind, name string) bool {
	w.t.Helper()
	err := w.Client.Get(w.t.Context(), client.ObjectKey{Namespace: "default", Name: name}, testenv.Object(kind, name))
	require.NoError(w.t, client.IgnoreNotFound(err))
	return err == nil
}

// Cluster API returns at the first Machine whose request exists, or fails: the Machines behind it are not remediated.
func TestOneRequestThatExistsOrFailsDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	w, check := remedied(t, contract.V1Beta2, "a", "b", "c")
	w.serveRemedies()
	foreign := request("b")
	w.Create(template(), foreign, check)
	w.Store.Inject(fake.Fault{
		Match: func(r fake.Request) bool {
			return r.Verb == "create" && r.GVK == requestGVK() && r.UserAgent == userAgent && r.Name != "c" && r.Code == 0
		},
		Times: 2, Err: apierrors.NewForbidden(schema.GroupResource{}, "a", errors.New("quota")),
	})
	w.run(remediation.Options{})
	w.reports(requested, "c", "a")
	w.reports(untold+remediation.ReasonRequestCreationFailed, "b")
	c, _ := engine.Find(w.state("b").Conditions, contract.ConditionExternallyRemediated)
	require.Contains(t, c.Message, "does not belong to the Machine")

	w.becomes("b", corev1.ConditionTrue, time.Minute)
	w.Until("be healthy", func() bool {
		c, _ := engine.Find(w.state("b").Conditions, contract.ConditionHealthCheckSucceeded)
		return c.Status == metav1.ConditionTrue
	})
	require.NotNil(t, w.Get(request("b")), "an object of another owner is not deleted")
}

func TestATemplateThatDoesNotExistIsReportedAndWaitedFor(t *testing.T) {
	t.Parallel()
	w, check := remedied(t, contract.V1Beta2, "a", "b")
	w.serveRemedies()
	w.Create(check)
	w.run(remediation.Options{})
	w.reports(untold+remediation.ReasonTemplateNotFound, "a", "b")
	w.Quiet(userAgent, time.Second)
	w.Create(template())
	w.reports(requested, "a", "b")
}

func TestAKindOfTemplatesThatIsNotServedIsReported(t *testing.T) {
	t.Parallel()
	w, check := remedied(t, contract.V1Beta2, "a")
	w.Create(check)
	w.run(remediation.Options{})
	w.reports(untold+remediation.ReasonTemplateNotFound, "a")
	c, _ := engine.Find(w.state("a").Conditions, contract.ConditionExternallyRemediated)
	require.Contains(t, c.Message, "is not served")
	w.reports(healthy, "b", "c", "d", "e")
}

func TestAnObjectOfTheMachinesNameThatDoesNotBelongToItIsNotDeleted(t *testing.T) {
	t.Parallel()
	w, check := remedied(t, contract.V1Beta2)
	w.serveRemedies()
	old := request("a")
	w.Create(template(), old, check)
	w.run(remediation.Options{})
	w.reports(healthy, "a", "b")
	w.Quiet(userAgent, time.Second)
	require.Zero(t, w.Store.CountRequests(func(r fake.Request) bool { return r.Verb == "delete" && r.UserAgent == userAgent }))
}

// The ledger is that of the check before the restore, and counts nothing. Requests belong to Machines, and somebody works on them.
func TestARestoredCheckEndsTheRequestsOfAFormerTemplate(t *testing.T) {
	t.Parallel()
	w, check := remedied(t, contract.V1Beta2, "b")
	w.serveRemedies()
	w.Create(template(), check)
	stop := w.run(remediation.Options{})
	w.reports(requested, "b")
	stop()
	restored := w.Get(check)
	w.Delete(w.Get(check))
	w.Gone(check)
	restored.SetUID("")
	restored.SetResourceVersion("")
	unstructured.RemoveNestedField(restored.Object, "spec", "remediation", "templateRef")
	w.Create(restored)
	running := request("b")
	w.Change(running, func(u *unstructured.Unstructured) { u.SetFinalizers([]string{"remediation.example.com/running"}) })
	w.run(remediation.Options{})
	w.Eventually("the request is asked to end", func() string {
		return map[bool]string{true: "it is not"}[w.Get(running).GetDeletionTimestamp() == nil]
	})
	w.Quiet(userAgent, time.Second)
	w.reports(requested, "b")
	w.Change(running, func(u *unstructured.Unstructured) { u.SetFinalizers(nil) })
	w.reports(marked, "b")
}
