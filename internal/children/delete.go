package children

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/internal/patch"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// Delete requests the deletion of children, in order, each only in the version that was read, while the owner controls it: a child that was
// chosen because it was not available may be available now. A rejected deletion does not delay the others, and no other child is deleted in
// its place. Because caches may be stale, the API server confirms once that the owner has not changed and, unless keep is 0, the number of
// children and their marks: at least keep children that are not being deleted remain. Another pass follows for a child that has changed
// before; the error for a child that changes at the same time matches patch.Retryable.
func (s *Scope[S, U, CS, CU]) Delete(ctx context.Context, victims []scale.Victim, keep int) error {
	if len(victims) == 0 {
		return nil
	}
	if err := s.sameOwner(ctx); err != nil {
		return err
	}
	versions := map[types.UID]string{}
	for _, m := range s.Own {
		versions[m.UID] = m.ResourceVersion
	}
	if keep > 0 {
		var err error
		if victims, err = s.confirm(ctx, victims, keep, versions); err != nil {
			return err
		}
	}
	name := s.frame.kind.GVK.Kind
	var names []string
	var failed []error
	ctx, cancel := context.WithTimeout(ctx, passLimit)
	defer cancel()
	for _, v := range victims {
		if ctx.Err() != nil { // the confirmation is too old now
			s.owner.Requeue(engine.ConflictRetry)
			break
		}
		switch err := s.deleteOne(ctx, v, versions[v.UID]); {
		case err == nil:
			names = append(names, v.Name)
		case external.IsGone(err): // an event has reported it, or another client has deleted it
		default:
			if failed = append(failed, err); !engine.IsStale(err) {
				s.Undeleted = append(s.Undeleted, engine.Bounded(err.Error(), engine.MaxNoteLength))
			}
		}
	}
	slices.Sort(s.Undeleted)
	if len(names) > 0 {
		s.owner.Eventf(corev1.EventTypeNormal, "SuccessfulDelete", "Delete"+name, "Deleted %s", s.frame.named(names))
	}
	if len(s.Undeleted) > 0 {
		s.owner.Eventf(corev1.EventTypeWarning, "FailedDelete", "Delete"+name, "Failed to delete %ss: %v", name, s.Undeleted[0])
	}
	return errors.Join(failed...)
}

// sameOwner confirms with the API server that the owner has not changed since it was read. The error matches engine.ErrStale.
func (s *Scope[S, U, CS, CU]) sameOwner(ctx context.Context) error {
	owner, now := s.owner.Common(), engine.NewObject(s.frame.owner.Kind)
	err := s.frame.Existing(ctx, now, s.frame.owner.Kind.GVK.Kind, owner.Key)
	if err == nil && now.GetResourceVersion() != owner.ResourceVersion {
		err = fmt.Errorf("%w: %s %s has changed", engine.ErrStale, s.frame.owner.Kind.GVK.Kind, owner.Key)
	}
	return err
}

// confirm returns the victims that may be deleted according to the children in the API server.
func (s *Scope[S, U, CS, CU]) confirm(
	ctx context.Context, victims []scale.Victim, keep int, versions map[types.UID]string,
) ([]scale.Victim, error) {
	live, err := s.Live(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.seesMarks(live); err != nil {
		return nil, err
	}
	spare := -keep
	for _, m := range live {
		if m.DeletionTimestamp == nil {
			spare++
		}
	}
	var confirmed []scale.Victim
	for _, v := range victims {
		if live[v.Name].ResourceVersion == versions[v.UID] && len(confirmed) < spare {
			confirmed = append(confirmed, v)
		}
	}
	if len(confirmed) < len(victims) {
		s.owner.Requeue(engine.ConflictRetry)
	}
	return confirmed, nil
}

// seesMarks confirms that the children to delete were chosen by their present marks. A client that marks a child and then reduces the
// replicas, as cluster-autoscaler does, writes two objects, and the cache of owners may show its write before the cache of children does.
func (s *Scope[S, U, CS, CU]) seesMarks(live map[string]metav1.PartialObjectMetadata) error {
	for _, m := range s.Own {
		if now, found := live[m.Key.Name]; found && now.UID == m.UID {
			if err := s.frame.SameMarks(m.Metadata, now.Annotations); err != nil {
				return err
			}
		}
	}
	return nil
}

// SameMarks confirms that a child that was read has the marks in the present annotations. The error matches engine.ErrStale.
func (f *Frame[S, U, CS, CU]) SameMarks(child *contract.Metadata, now map[string]string) error {
	for _, key := range f.marks {
		before, had := child.Annotations[key]
		if after, has := now[key]; had != has || before != after {
			return fmt.Errorf("%w: %s of %s has changed", engine.ErrStale, key, f.nameOf(child.Key))
		}
	}
	return nil
}

func (s *Scope[S, U, CS, CU]) deleteOne(ctx context.Context, v scale.Victim, version string) error {
	child := engine.NewObject(s.frame.kind)
	child.SetNamespace(s.key(v.Name).Namespace)
	child.SetName(v.Name)
	err := s.frame.owner.Ports.Client.Delete(ctx, child, client.Preconditions{UID: &v.UID, ResourceVersion: &version})
	if err != nil {
		return fmt.Errorf("delete %s: %w", s.frame.nameOf(s.key(v.Name)), err)
	}
	return nil
}

// named names children in an event: a single one as Cluster API does, of many the first ones.
func (f *Frame[S, U, CS, CU]) named(names []string) string {
	if len(names) == 1 {
		return fmt.Sprintf("%s %q", f.kind.GVK.Kind, names[0])
	}
	return fmt.Sprintf("%d %ss: %s", len(names), f.kind.GVK.Kind, patch.FirstNamed(names, maxNames))
}
