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

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machineset/scale"
)

const (
	// lagLimit is how long a cache without an object counts as late, before it is reported as incomplete.
	lagLimit = 30 * time.Second
	// askAgain is the interval of requests to the API server for missing children. The cause does not end without a change.
	askAgain = time.Minute
)

// Lag is the time for which a cache has lacked an object that the API server has. The zero value means that nothing is missing.
type Lag struct {
	since time.Time
	name  string
}

// Judge reports whether a cache has all objects. Otherwise it returns a message for a person, empty while the cache is only late, and when
// to check again. kind is the kind of the objects, and missing are their names, which are not changed.
func (l *Lag) Judge(kind string, missing []string, now time.Time) (shows bool, message string, again time.Duration) {
	if len(missing) == 0 {
		*l = Lag{}
		return true, "", 0
	}
	if !slices.Contains(missing, l.name) || now.Before(l.since) { // others come and are shown, as while a set creates many
		*l = Lag{now, slices.Min(missing)}
	}
	if now.Sub(l.since) < lagLimit {
		return false, "", engine.BehindRetry
	}
	return false, fmt.Sprintf("%s %s exists, and the cache does not show it as it is: have the cache of %[1]s objects select it (labels, "+
		"fields, namespaces), or look for a webhook that takes its labels or marks away", kind, l.name), askAgain
}

// ShowsAll reports whether the cache has all children that the API server has of the owner, or for it to adopt, with the same progress of
// updates in place, which decides whether a set counts them. It makes one consistent list in a pass. Call it before an action that depends
// on their number. Without an error, false sets Waiting for a cache that is behind, and adds a hold, with the reason of NotShown, for a
// missing child and for a child of another Cluster.
func (s *Scope[S, U, CS, CU]) ShowsAll(ctx context.Context) (bool, error) {
	if s.names != nil {
		return s.shows, nil
	}
	shown := make(map[types.UID]string, len(s.candidates))
	for _, m := range s.candidates {
		shown[m.UID] = m.Annotations[contract.InPlaceAnnotation]
	}
	var missing []string
	names := map[string]bool{}
	err := s.frame.EachLive(ctx, s.owner.Common().Key.Namespace, func(m *metav1.PartialObjectMetadata) {
		names[m.Name] = true
		s.highest = max(s.highest, scale.SlotOf(&contract.Metadata{Annotations: m.Annotations}, s.owner.Common().UID))
		if cluster := m.Labels[contract.ClusterNameLabel]; s.isLeft(m) && cluster != "" && cluster != s.owner.Common().ClusterName {
			s.Hold(ReasonClaimFailed, engine.ClusterChanged(s.frame.owner.Kind.GVK.Kind, s.owner.Common(), cluster))
		}
		if state, known := shown[m.UID]; s.concerns(m) && (!known || state != m.Annotations[contract.InPlaceAnnotation]) {
			missing = append(missing, m.Name)
		}
	})
	if err != nil {
		return false, err
	}
	shows, message, again := s.memory.lag.Judge(s.frame.kind.GVK.Kind, missing, s.frame.owner.Options.Clock.Now())
	if s.IsHeld(ReasonClaimFailed) {
		shows = false
		s.owner.Requeue(askAgain) // no event of a child without a controller wakes the owner when it is deleted
	}
	s.names, s.shows = names, shows
	s.owner.Requeue(again)
	if message != "" {
		s.Hold(NotShown(s.frame.name), message)
	}
	s.Waiting = s.Waiting || !shows && len(s.Holds) == 0
	return shows, nil
}

// isLeft reports whether a child was created for the owner and has no controller, because another program has removed the owner reference.
func (s *Scope[S, U, CS, CU]) isLeft(m *metav1.PartialObjectMetadata) bool {
	return metav1.GetControllerOfNoCopy(m) == nil && isStamped(m, s.owner.Common().UID)
}

// isStamped reports whether an object was created for a slot of an owner.
func isStamped(obj metav1.Object, owner types.UID) bool {
	return scale.ReadStamp(obj.GetAnnotations()).Set == owner
}

// concerns reports whether a child must be in the cache.
func (s *Scope[S, U, CS, CU]) concerns(m *metav1.PartialObjectMetadata) bool {
	controller := metav1.GetControllerOfNoCopy(m)
	return metav1.IsControlledBy(m, s.owner.Object) || ((controller == nil || s.frame.isOwner(controller, s.owner.Common().Key.Name)) &&
		s.Selector.Matches(labels.Set(m.Labels)))
}

// EachLive passes the metadata of all objects of the children's kind in a namespace to a function, as read from the API server.
func (f *Frame[S, U, CS, CU]) EachLive(ctx context.Context, namespace string, each func(*metav1.PartialObjectMetadata)) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(f.kind.GVK.GroupVersion().WithKind(f.kind.GVK.Kind + "List"))
	if err := f.owner.Ports.APIReader.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("list %s objects: %w", f.kind.GVK.Kind, err)
	}
	for i := range list.Items {
		each(&list.Items[i])
	}
	return nil
}

// Live returns the metadata of the children that the owner controls, by name, as read from the API server.
func (s *Scope[S, U, CS, CU]) Live(ctx context.Context) (map[string]metav1.PartialObjectMetadata, error) {
	own := map[string]metav1.PartialObjectMetadata{}
	err := s.frame.EachLive(ctx, s.owner.Common().Key.Namespace, func(m *metav1.PartialObjectMetadata) {
		if metav1.IsControlledBy(m, s.owner.Object) {
			own[m.Name] = *m
		}
	})
	return own, err
}

// AllGone reports whether the API server confirms that the owner controls no child any more. Otherwise it requests another pass, because
// the events of the children will follow.
func (s *Scope[S, U, CS, CU]) AllGone(ctx context.Context) (bool, error) {
	live, err := s.Live(ctx)
	if len(live) > 0 {
		s.owner.Requeue(engine.BehindRetry)
	}
	return err == nil && len(live) == 0, err
}

func (s *Scope[S, U, CS, CU]) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: s.owner.Common().Key.Namespace, Name: name}
}
