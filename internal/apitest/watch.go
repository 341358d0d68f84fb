package apitest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// observe opens a watch of the objects of a kind that have the label "watched", with metav1.ListOptions.
func observe(ref, options string) step {
	return func(ctx context.Context, r *run) error {
		kind, o, err := r.listing("watch", ref, options)
		if err != nil {
			return err
		}
		o.Raw.LabelSelector = "watched"
		w, err := r.Client.Watch(ctx, kind, o)
		if err == nil {
			r.watches, r.version = append(r.watches, w), 0
		}
		return err
	}
}

// events expects the next events of the last watch, as "TYPE GoType name".
func events(wants ...string) step {
	return func(ctx context.Context, r *run) error {
		ctx, cancel := context.WithTimeout(ctx, waitLimit)
		defer cancel()
		for i, want := range wants {
			r.doing = fmt.Sprintf("event %d", i+1)
			got, err := r.event(ctx)
			if err != nil || got != want {
				return errors.Join(fmt.Errorf("it is %q, want %q", got, want), err)
			}
		}
		return nil
	}
}

// event takes one event from a watch. It passes over bookmarks other than the one after the initial events: a server may send them at any
// time. Rule: KEP-956.
func (r *run) event(ctx context.Context) (string, error) {
	for {
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case event, open := <-r.watches[len(r.watches)-1].ResultChan():
			obj, ok := event.Object.(client.Object)
			if !ok {
				return "", fmt.Errorf("%s %v, and the watch is open: %t", event.Type, event.Object, open)
			}
			name, bookmark := obj.GetName(), event.Type == watch.Bookmark
			if bookmark && obj.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true" {
				name = "initial-events-end"
			}
			version, err := strconv.ParseUint(obj.GetResourceVersion(), 10, 64)
			if err != nil || version < r.version || version == r.version && !bookmark {
				return "", errors.Join(fmt.Errorf("version %q follows %d", obj.GetResourceVersion(), r.version), err)
			}
			r.version = version
			if name != "" {
				return fmt.Sprintf("%s %s %s", event.Type, strings.TrimPrefix(fmt.Sprintf("%T", event.Object), "*v1."), name), nil
			}
		}
	}
}

func watchCases() []Case {
	const asked = `{"sendInitialEvents":true,"resourceVersionMatch":"NotOlderThan","allowWatchBookmarks":true}`
	const end = "BOOKMARK ConfigMap initial-events-end"
	change := func(value string) step {
		return all(merge("ConfigMap/a", `{"data":{"k":"`+value+`"}}`), events("MODIFIED ConfigMap a"))
	}
	return []Case{
		of("a watch shows every change in order with growing versions", "informers",
			observe("ConfigMap", ""), create("ConfigMap/a", watched), update("ConfigMap/a", `{"data":{"k":"new"}}`),
			update("ConfigMap/a", ""), // changes nothing
			remove("ConfigMap/a", ""), create("ConfigMap/b", watched),
			events("ADDED ConfigMap a", "MODIFIED ConfigMap a", "DELETED ConfigMap a", "ADDED ConfigMap b")),
		of("a watch from a list's version misses nothing and repeats nothing", "list, then watch",
			create("ConfigMap/a", watched), list("ConfigMap", `{"labelSelector":"watched"}`).shows(".items[*].metadata.name = a"),
			create("ConfigMap/b", watched), observe("ConfigMap", `{"resourceVersion":"$resourceVersion"}`), remove("ConfigMap/a", ""),
			events("ADDED ConfigMap b", "DELETED ConfigMap a")),
		of("a selective watch shows objects that start or stop to match", "label changes",
			observe("ConfigMap", ""), create("ConfigMap/a", ""), update("ConfigMap/a", watched),
			update("ConfigMap/a", `{"metadata":{"labels":null}}`), events("ADDED ConfigMap a", "DELETED ConfigMap a")),
		of("a watch of metadata shows metadata", "cheap informers",
			observe("ConfigMap:metadata", ""), create("ConfigMap/a", watched), events("ADDED PartialObjectMetadata a")),
		of("a watch that asks for bookmarks is told when it has seen what was there", "informers start with one request",
			create("ConfigMap/a", watched), observe("ConfigMap", asked), events("ADDED ConfigMap a", end), change("1"),
			observe("ConfigMap", `{"allowWatchBookmarks":true}`), events("ADDED ConfigMap a", end), change("2"),
			observe("ConfigMap", `{"sendInitialEvents":true,"resourceVersionMatch":"NotOlderThan"}`), events("ADDED ConfigMap a"), change("3")),
		of("a watch of metadata gets bookmarks of metadata", "cheap informers",
			observe("ConfigMap:metadata", asked), events("BOOKMARK PartialObjectMetadata initial-events-end")),
		of("a watch from now on shows nothing that was there", "who has listed already",
			create("ConfigMap/a", watched), observe("ConfigMap", `{"sendInitialEvents":false,"resourceVersionMatch":"NotOlderThan"}`),
			create("ConfigMap/b", watched), events("ADDED ConfigMap b")),
		of("initial events are for watches, and need a resourceVersionMatch", "a list that never ends",
			observe("ConfigMap", `{"sendInitialEvents":true,"allowWatchBookmarks":true}`).forbidden(""),
			observe("ConfigMap", `{"resourceVersionMatch":"NotOlderThan","allowWatchBookmarks":true}`).forbidden(""),
			list("ConfigMap", `{"sendInitialEvents":true}`).forbidden("")),
	}
}
