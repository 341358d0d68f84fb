package children

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// askAgain is the interval of requests to the API server for children that the cache leaves out. The cause does not end without a change.
const askAgain = time.Minute

// ShowsAll reports whether the API server itself has no children of the owner, and none for it to adopt, that the cache does not show. Call
// it before something is done that counts on their number. The API server is asked once, and again when a child is missing of which this
// process has neither seen nor requested the deletion, or when another process has written the ledger. Without an error, false sets Waiting
// for a cache that is behind, and adds a hold, with the reason of NotShown, for one that leaves a child out: it is asked once a minute.
func (s *Scope[CS, CU]) ShowsAll(ctx context.Context) (bool, error) {
	return s.cacheShowsAll(ctx, s.Ledger.Through)
}

// cacheShowsAll asks the API server itself, before something is created, whether it has children of the owner, or for it to adopt, that the
// cache does not show: a cache may be behind, or leave them out. It is asked once, and again when one is missing. Otherwise the pass
// waits, or the owner is held.
func (s *Scope[CS, CU]) cacheShowsAll(ctx context.Context, through string) (bool, error) {
	mem, now := s.memory, s.frame.clock.Now()
	if mem.trusted && !s.unsure {
		return true, nil
	}
	if mem.leftOut != "" && now.Before(mem.askedAt.Add(askAgain)) && !now.Before(mem.askedAt) {
		s.leftOut(mem.leftOut)
		return false, nil
	}
	mem.leftOut = ""
	facts := scale.CacheFacts{Seen: s.seen, Shown: make(map[string]types.UID, len(s.candidates))}
	for _, m := range s.candidates {
		facts.Shown[m.Key.Name] = m.UID
	}
	err := s.frame.EachLive(ctx, s.owner.Common().Key.Namespace, func(m *metav1.PartialObjectMetadata) {
		if s.concerns(m) {
			facts.Live = append(facts.Live, scale.Live{Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion})
		}
	})
	if err != nil {
		return false, err
	}
	verdict, missing := scale.Compare(facts)
	if verdict != scale.ShowsAll {
		facts.Since = mem.missingFor(now)
		mem.trusted = false
		verdict, missing = scale.Compare(facts)
	}
	switch verdict {
	case scale.ShowsAll:
		mem.shows(through, s.Ledger.String())
		s.unsure = false
		return true, nil
	case scale.LeavesOut:
		mem.leftOut, mem.askedAt = missing[0], now
		s.leftOut(missing[0])
	case scale.Behind:
		s.wait()
	}
	return false, nil
}

// leftOut holds an owner of which the cache leaves a child out.
func (s *Scope[CS, CU]) leftOut(name string) {
	kind := s.frame.kind.GVK.Kind
	s.Hold(NotShown(s.frame.config.Name), fmt.Sprintf("%s %s exists, and the cache does not show it: have the cache of %s objects "+
		"select it (labels, fields, namespaces), or look for a webhook that takes its labels away", kind, name, kind))
	s.owner.Requeue(askAgain)
}

// concerns reports whether a child is one of those that the cache is asked for.
func (s *Scope[CS, CU]) concerns(m *metav1.PartialObjectMetadata) bool {
	controller := metav1.GetControllerOfNoCopy(m)
	return s.controlled(m) || ((controller == nil || s.frame.isOwner(controller, s.owner.Common().Key.Name)) &&
		s.selector.Matches(labels.Set(m.Labels)))
}

// listLimit is the number of children in one answer of the API server.
const listLimit = 500

// EachLive passes the metadata of all objects of the children's kind in a namespace to a function, as the API server has them.
func (f *Frame[CS, CU]) EachLive(ctx context.Context, namespace string, each func(*metav1.PartialObjectMetadata)) error {
	return f.EachSelected(ctx, namespace, labels.Everything(), each)
}

// EachSelected is EachLive for the objects that a selector selects. Owners ask with their own one before each deletion: a list of the whole
// namespace costs more with every other owner there. An object whose labels were changed is not passed, and may exist all the same.
func (f *Frame[CS, CU]) EachSelected(
	ctx context.Context, namespace string, selector labels.Selector, each func(*metav1.PartialObjectMetadata),
) error {
	gvk, next := f.kind.GVK, ""
	for {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		err := f.ports.APIReader.List(ctx, list, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: selector},
			client.Limit(listLimit), client.Continue(next))
		if err != nil {
			return fmt.Errorf("list %s objects: %w", gvk.Kind, err)
		}
		for i := range list.Items {
			each(&list.Items[i])
		}
		if next = list.Continue; next == "" {
			return nil
		}
	}
}

// Live returns the metadata of the children that the owner controls as the API server itself knows them, by name.
func (s *Scope[CS, CU]) Live(ctx context.Context) (map[string]metav1.PartialObjectMetadata, error) {
	return s.live(ctx, labels.Everything())
}

// live is Live for the children that a selector selects.
func (s *Scope[CS, CU]) live(ctx context.Context, selector labels.Selector) (map[string]metav1.PartialObjectMetadata, error) {
	own := map[string]metav1.PartialObjectMetadata{}
	err := s.frame.EachSelected(ctx, s.owner.Common().Key.Namespace, selector, func(m *metav1.PartialObjectMetadata) {
		if s.controlled(m) {
			own[m.Name] = *m
		}
	})
	return own, err
}

// narrowest returns the selector of the owner where it selects all children that the owner controls, otherwise one that selects everything:
// an owner with another selector than before has children with other labels too.
func (s *Scope[CS, CU]) narrowest() labels.Selector {
	if slices.ContainsFunc(s.Own, func(m Child[CS]) bool { return !s.selector.Matches(labels.Set(m.Labels)) }) {
		return labels.Everything()
	}
	return s.selector
}

// AllGone reports whether the API server confirms that the owner controls no child any more. Otherwise it requests another pass: the events
// of the children are on the way.
func (s *Scope[CS, CU]) AllGone(ctx context.Context) (bool, error) {
	live, err := s.Live(ctx)
	if len(live) > 0 {
		s.owner.Requeue(engine.BehindRetry)
	}
	return err == nil && len(live) == 0, err
}

func (s *Scope[CS, CU]) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: s.owner.Common().Key.Namespace, Name: name}
}
