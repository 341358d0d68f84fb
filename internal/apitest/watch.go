package apitest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func watchCases() []Case {
	return []Case{
		{"a watch shows every change in order with growing versions", "informers", watchOrder},
		{"a watch from a list's version misses nothing and repeats nothing", "list, then watch", watchFromList},
		{"a selective watch shows objects that start or stop to match", "label changes", watchSelector},
		{"a watch of metadata shows metadata", "cheap informers", watchMetadata},
		{"a watch that asks for bookmarks is told when it has seen what was there", "informers start with one request", watchList},
		{"a watch of metadata gets bookmarks of metadata", "cheap informers", watchListMetadata},
		{"a watch from now on shows nothing that was there", "who has listed already", watchFromNow},
		{"initial events are for watches, and need a resourceVersionMatch", "a list that never ends", watchBadOptions},
	}
}

// shown takes one event from a watch and renders it as "TYPE name", or "BOOKMARK initial-events-end" for that bookmark. It passes over
// other bookmarks: a server may send them at any time. Rule: KEP-956.
func shown(ctx context.Context, w watch.Interface) (string, runtime.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, waitLimit)
	defer cancel()
	for {
		select {
		case <-ctx.Done():
			return "", nil, ctx.Err()
		case event, open := <-w.ResultChan():
			if !open {
				return "", nil, errors.New("the watch ended")
			}
			obj, err := meta.Accessor(event.Object)
			if err != nil {
				return "", nil, fmt.Errorf("event %s: %w", event.Type, err)
			}
			switch {
			case obj.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true":
				return string(event.Type) + " initial-events-end", event.Object, nil
			case event.Type != watch.Bookmark:
				return string(event.Type) + " " + obj.GetName(), event.Object, nil
			}
		}
	}
}

func watchOptions(initial *bool, match metav1.ResourceVersionMatch, bookmarks bool) client.ListOption {
	return &client.ListOptions{Raw: &metav1.ListOptions{
		SendInitialEvents: initial, ResourceVersionMatch: match, AllowWatchBookmarks: bookmarks,
	}}
}

func watchList(ctx context.Context, e Env) {
	cm := e.watched("a")
	e.must(e.Client.Create(ctx, cm))
	const notOlder = metav1.ResourceVersionMatchNotOlderThan
	marked := []string{"ADDED a", "BOOKMARK initial-events-end"}
	tests := map[string]struct {
		options client.ListOption
		want    []string
	}{
		"asked for":         {watchOptions(new(true), notOlder, true), marked},
		"without a version": {watchOptions(nil, "", true), marked},
		"without bookmarks": {watchOptions(new(true), notOlder, false), []string{"ADDED a"}},
	}
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		e.watchShows(ctx, cm, name, tests[name].options, tests[name].want)
	}
}

// watchShows holds the first events of a watch against those that are wanted, and then a change of a ConfigMap.
func (e Env) watchShows(ctx context.Context, cm *corev1.ConfigMap, name string, o client.ListOption, wanted []string) {
	w, err := e.openWatch(ctx, &corev1.ConfigMapList{}, o)
	e.must(err)
	defer w.Stop()
	var obj runtime.Object
	for _, want := range wanted {
		var got string
		got, obj, err = shown(ctx, w)
		e.must(err, equal("event of a watch "+name, got, want))
	}
	last, ok := obj.(*corev1.ConfigMap)
	e.must(holds(ok && last.ResourceVersion != "", "the last event holds %T %v", obj, obj))
	e.must(e.patch(ctx, cm, types.MergePatchType, `{"data":{"k":%q}}`, name))
	got, _, err := shown(ctx, w)
	e.must(err, equal("event after a write, of a watch "+name, got, "MODIFIED a"))
}

func watchListMetadata(ctx context.Context, e Env) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	w, err := e.openWatch(ctx, list, watchOptions(new(true), metav1.ResourceVersionMatchNotOlderThan, true))
	e.must(err)
	defer w.Stop()
	got, obj, err := shown(ctx, w)
	_, ok := obj.(*metav1.PartialObjectMetadata)
	e.must(err, equal("event", got, "BOOKMARK initial-events-end"), holds(ok, "the event holds a %T", obj))
}

func watchFromNow(ctx context.Context, e Env) {
	e.must(e.Client.Create(ctx, e.watched("a")))
	w, err := e.openWatch(ctx, &corev1.ConfigMapList{}, watchOptions(new(false), metav1.ResourceVersionMatchNotOlderThan, false))
	e.must(err)
	defer w.Stop()
	e.must(e.Client.Create(ctx, e.watched("b")))
	got, _, err := shown(ctx, w)
	e.must(err, equal("event", got, "ADDED b"))
}

func watchBadOptions(ctx context.Context, e Env) {
	bad := refusal{code: 422, reason: metav1.StatusReasonInvalid, cause: metav1.CauseTypeForbidden}
	_, plain := e.openWatch(ctx, &corev1.ConfigMapList{}, watchOptions(new(true), "", true))
	_, match := e.openWatch(ctx, &corev1.ConfigMapList{}, watchOptions(nil, metav1.ResourceVersionMatchNotOlderThan, true))
	list := e.Client.List(ctx, &corev1.ConfigMapList{}, watchOptions(new(true), "", false), client.InNamespace(e.Namespace))
	e.must(bad.check(plain), bad.check(match), bad.check(list))
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

func watchOrder(ctx context.Context, e Env) {
	w, err := e.openWatch(ctx, &corev1.ConfigMapList{})
	e.must(err)
	defer w.Stop()
	cm := e.watched("a")
	e.must(e.Client.Create(ctx, cm))
	cm.Data["k"] = "new"
	e.must(e.Client.Update(ctx, cm))
	e.must(e.Client.Update(ctx, cm)) // changes nothing
	e.must(e.Client.Delete(ctx, cm))
	e.must(e.Client.Create(ctx, e.watched("b")))
	got, err := events(ctx, w, 4)
	e.must(err, equal("events", got, "ADDED a MODIFIED a DELETED a ADDED b"))
}

func watchFromList(ctx context.Context, e Env) {
	var list corev1.ConfigMapList
	cm := e.watched("a")
	e.must(e.Client.Create(ctx, cm))
	e.must(e.Client.List(ctx, &list, client.InNamespace(e.Namespace), client.HasLabels{"watched"}))
	e.must(equal("listed", len(list.Items), 1))
	e.must(e.Client.Create(ctx, e.watched("b")))
	w, err := e.openWatch(ctx, &corev1.ConfigMapList{}, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})
	e.must(err)
	defer w.Stop()
	e.must(e.Client.Delete(ctx, cm))
	got, err := events(ctx, w, 2)
	e.must(err, equal("events", got, "ADDED b DELETED a"))
}

func watchSelector(ctx context.Context, e Env) {
	w, err := e.openWatch(ctx, &corev1.ConfigMapList{})
	e.must(err)
	defer w.Stop()
	cm := e.madeConfigMap(ctx, "a")
	cm.Labels = map[string]string{"watched": "yes"}
	e.must(e.Client.Update(ctx, cm))
	cm.Labels = nil
	e.must(e.Client.Update(ctx, cm))
	got, err := events(ctx, w, 2)
	e.must(err, equal("events", got, "ADDED a DELETED a"))
}

func watchMetadata(ctx context.Context, e Env) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	w, err := e.openWatch(ctx, list)
	e.must(err)
	defer w.Stop()
	e.must(e.Client.Create(ctx, e.watched("a")))
	select {
	case event := <-w.ResultChan():
		_, ok := event.Object.(*metav1.PartialObjectMetadata)
		e.must(holds(ok, "the event holds a %T", event.Object))
	case <-time.After(waitLimit):
		e.must(errors.New("no event came"))
	}
}
