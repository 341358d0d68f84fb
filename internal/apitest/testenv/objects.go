package testenv

import (
	"fmt"
	"slices"
	"strings"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
)

// Object returns an empty object of a kind in the namespace default.
func Object(gvk schema.GroupVersionKind, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(gvk)
	u.SetNamespace("default")
	u.SetName(name)
	return u
}

// Number returns an integer of an object, 0 without it.
func Number(obj *unstructured.Unstructured, path ...string) int64 {
	n, _, _ := unstructured.NestedInt64(obj.Object, path...)
	return n
}

// Text returns a text of an object, empty without it.
func Text(obj *unstructured.Unstructured, path ...string) string {
	text, _, _ := unstructured.NestedString(obj.Object, path...)
	return text
}

// Create creates objects.
func (e *Env) Create(objects ...client.Object) {
	e.T.Helper()
	for _, obj := range objects {
		e.must("create "+obj.GetName(), e.Client.Create(e.T.Context(), obj))
	}
}

// Delete requests the deletion of objects.
func (e *Env) Delete(objects ...client.Object) {
	e.T.Helper()
	for _, obj := range objects {
		e.must("delete "+obj.GetName(), e.Client.Delete(e.T.Context(), obj))
	}
}

// Get reads an object by its kind and name again, nil when it is gone.
func (e *Env) Get(obj *unstructured.Unstructured) *unstructured.Unstructured {
	e.T.Helper()
	fresh := &unstructured.Unstructured{}
	fresh.SetGroupVersionKind(obj.GroupVersionKind())
	err := e.Client.Get(e.T.Context(), client.ObjectKeyFromObject(obj), fresh)
	if apierrors.IsNotFound(err) {
		return nil
	}
	e.must("get "+obj.GetName(), err)
	return fresh
}

// List returns the objects of a kind in the namespace default.
func (e *Env) List(gvk schema.GroupVersionKind) []unstructured.Unstructured {
	e.T.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	e.must("list "+gvk.Kind, e.Client.List(e.T.Context(), list, client.InNamespace("default")))
	return list.Items
}

// Change writes what functions change in an object, its status too. A part that they leave unchanged is not written: the first write may
// end what the object waits for. Finalizers are written on the version that was read, and the functions are called again when that has
// changed.
func (e *Env) Change(obj *unstructured.Unstructured, do ...func(*unstructured.Unstructured)) {
	e.T.Helper()
	var err error
	for range 100 {
		if err = e.change(obj, do); !apierrors.IsConflict(err) {
			break
		}
	}
	e.must("change "+obj.GetName(), err)
}

func (e *Env) change(obj *unstructured.Unstructured, do []func(*unstructured.Unstructured)) error {
	e.T.Helper()
	fresh := e.Get(obj)
	if fresh == nil {
		e.T.Fatalf("change %s %s: it is gone", obj.GetKind(), obj.GetName())
		return nil
	}
	base := fresh.DeepCopy()
	for _, one := range do {
		one(fresh)
	}
	status, statusBefore := fresh.DeepCopy(), base.Object["status"]
	delete(fresh.Object, "status")
	delete(base.Object, "status")
	if !equality.Semantic.DeepEqual(base, fresh) {
		how := client.MergeFrom(base)
		if !slices.Equal(base.GetFinalizers(), fresh.GetFinalizers()) { // the list replaces that of others
			how = client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})
		}
		if err := e.Client.Patch(e.T.Context(), fresh, how); err != nil {
			return err
		}
	}
	if equality.Semantic.DeepEqual(statusBefore, status.Object["status"]) {
		return nil
	}
	base.Object["status"] = statusBefore
	return e.Client.Status().Patch(e.T.Context(), status, client.MergeFrom(base))
}

// Events returns the events with a reason.
func (e *Env) Events(reason string) []eventsv1.Event {
	e.T.Helper()
	var list eventsv1.EventList
	e.must("list events", e.Client.List(e.T.Context(), &list))
	var found []eventsv1.Event
	for _, event := range list.Items {
		if event.Reason == reason {
			found = append(found, event)
		}
	}
	return found
}

// Condition returns the condition of a type in the status of an object, zero without one.
func Condition(obj *unstructured.Unstructured, kind string) metav1.Condition {
	if obj == nil {
		return metav1.Condition{}
	}
	c, _, _ := contract.ConditionsAt("status", "conditions").Find(obj.Object, kind)
	return c
}

// Describe returns the conditions of an object as text.
func Describe(obj *unstructured.Unstructured) string {
	if obj == nil {
		return "it is gone"
	}
	all, _ := contract.ConditionsAt("status", "conditions").Get(obj.Object, nil)
	var text strings.Builder
	for _, c := range all {
		fmt.Fprintf(&text, "\n  %s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message)
	}
	return text.String()
}

func (e *Env) must(what string, err error) {
	e.T.Helper()
	if err != nil {
		e.T.Fatalf("%s: %v", what, err)
	}
}
