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

// watch opens a watch.
func (r *run) watch(ctx context.Context, kind client.ObjectList, o *client.ListOptions) error {
	w, err := r.Client.Watch(ctx, kind, o)
	if err == nil {
		r.watches, r.version = append(r.watches, w), 0
	}
	return err
}

// events expects the next events of the last watch: a list of "TYPE GoType name".
func (r *run) events(ctx context.Context, list string) error {
	ctx, cancel := context.WithTimeout(ctx, waitLimit)
	defer cancel()
	var expected []string
	if err := r.decode(list, &expected); err != nil {
		return err
	}
	for i, want := range expected {
		got, err := r.event(ctx)
		if err != nil || got != want {
			return errors.Join(fmt.Errorf("event %d is %q, want %q", i+1, got, want), err)
		}
	}
	return nil
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
