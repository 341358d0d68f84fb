package conformance

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func watchCases() []Case {
	return []Case{
		{"a watch shows every change in order with growing versions", "informers", watchOrder},
		{"a watch from a list's version misses nothing and repeats nothing", "list, then watch", watchFromList},
		{"a selective watch shows objects that start or stop to match", "label changes", watchSelector},
		{"a watch of metadata shows metadata", "cheap informers", watchMetadata},
	}
}

// events takes n events from a watch and renders them as "TYPE name", and checks that their versions grow.
func events(ctx context.Context, w watch.Interface, n int) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, waitLimit)
	defer cancel()
	var out []string
	last := uint64(0)
	for len(out) < n {
		select {
		case <-ctx.Done():
			return strings.Join(out, " "), fmt.Errorf("after events %v: %w", out, ctx.Err())
		case e, open := <-w.ResultChan():
			if !open {
				return strings.Join(out, " "), fmt.Errorf("the watch ended after events %v", out)
			}
			obj, err := meta.Accessor(e.Object)
			if err != nil {
				return "", fmt.Errorf("event %s: %w", e.Type, err)
			}
			version, err := strconv.ParseUint(obj.GetResourceVersion(), 10, 64)
			if err != nil || version <= last {
				return "", errors.Join(err, fmt.Errorf("version %s follows %d", obj.GetResourceVersion(), last))
			}
			last = version
			out = append(out, string(e.Type)+" "+obj.GetName())
		}
	}
	return strings.Join(out, " "), nil
}

func (e Env) openWatch(ctx context.Context, list client.ObjectList, o ...client.ListOption) (watch.Interface, error) {
	return e.Client.Watch(ctx, list, append(o, client.InNamespace(e.Namespace), client.HasLabels{"watched"})...)
}

func (e Env) watched(name string) *corev1.ConfigMap {
	cm := e.configMap(name)
	cm.Labels = map[string]string{"watched": "yes"}
	return cm
}

func watchOrder(ctx context.Context, e Env) error {
	w, err := e.openWatch(ctx, &corev1.ConfigMapList{})
	if err != nil {
		return err
	}
	defer w.Stop()
	cm := e.watched("a")
	steps := first(
		func() error { return e.Client.Create(ctx, cm) },
		func() error { cm.Data["k"] = "new"; return e.Client.Update(ctx, cm) },
		func() error { return e.Client.Update(ctx, cm) }, // changes nothing
		func() error { return e.Client.Delete(ctx, cm) },
		func() error { return e.Client.Create(ctx, e.watched("b")) },
	)
	if steps != nil {
		return steps
	}
	got, err := events(ctx, w, 4)
	return errors.Join(err, equal("events", got, "ADDED a MODIFIED a DELETED a ADDED b"))
}

func watchFromList(ctx context.Context, e Env) error {
	var list corev1.ConfigMapList
	cm := e.watched("a")
	steps := first(
		func() error { return e.Client.Create(ctx, cm) },
		func() error {
			return e.Client.List(ctx, &list, client.InNamespace(e.Namespace), client.HasLabels{"watched"})
		},
		func() error { return equal("listed", len(list.Items), 1) },
		func() error { return e.Client.Create(ctx, e.watched("b")) },
	)
	if steps != nil {
		return steps
	}
	w, err := e.openWatch(ctx, &corev1.ConfigMapList{}, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})
	if err != nil {
		return err
	}
	defer w.Stop()
	if err := e.Client.Delete(ctx, cm); err != nil {
		return err
	}
	got, err := events(ctx, w, 2)
	return errors.Join(err, equal("events", got, "ADDED b DELETED a"))
}

func watchSelector(ctx context.Context, e Env) error {
	w, err := e.openWatch(ctx, &corev1.ConfigMapList{})
	if err != nil {
		return err
	}
	defer w.Stop()
	cm := e.configMap("a")
	steps := first(
		func() error { return e.Client.Create(ctx, cm) },
		func() error { cm.Labels = map[string]string{"watched": "yes"}; return e.Client.Update(ctx, cm) },
		func() error { cm.Labels = nil; return e.Client.Update(ctx, cm) },
	)
	if steps != nil {
		return steps
	}
	got, err := events(ctx, w, 2)
	return errors.Join(err, equal("events", got, "ADDED a DELETED a"))
}

func watchMetadata(ctx context.Context, e Env) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	w, err := e.openWatch(ctx, list)
	if err != nil {
		return err
	}
	defer w.Stop()
	if err := e.Client.Create(ctx, e.watched("a")); err != nil {
		return err
	}
	select {
	case event := <-w.ResultChan():
		_, ok := event.Object.(*metav1.PartialObjectMetadata)
		return holds(ok, "the event holds a %T", event.Object)
	case <-time.After(waitLimit):
		return errors.New("no event came")
	}
}
