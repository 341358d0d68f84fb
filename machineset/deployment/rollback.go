package deployment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/children"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/patch"
)

// ErrRevision matches the errors about a revision that does not exist, or whose template the deployment already has.
var ErrRevision = errors.New("cannot roll back")

// rollbackStep copies the template of the requested revision to the deployment, and removes the request: the next pass rolls out. For a
// revision that does not exist, it records an event and removes the request too, as Kubernetes' Deployments did. It waits while the rollout
// is paused. The reasons of events are those of Kubernetes' Deployments.
func rollbackStep(ctx context.Context, s *Scope) (engine.Result, error) {
	revision, requested := s.State.RollbackTo.Get()
	if !requested || s.State.RolloutPaused || s.env.frame.Writer.Behind(s.Object) {
		return engine.Result{}, nil
	}
	target, err := revisionOf(s.observed, revision)
	if err == nil {
		err = copyTemplate(ctx, s.env.frame.Writer, s.env.kinds, s.Object, target.Object)
	}
	switch {
	case err == nil:
		s.Eventf(corev1.EventTypeNormal, "DeploymentRollback", "RollBack", "Rolled back to the template of %s %s",
			s.env.kinds.Set.GVK.Kind, target.Key.Name)
		return engine.Result{Stop: true, RequeueAfter: engine.ConflictRetry}, nil
	case !errors.Is(err, ErrRevision):
		return engine.Result{Stop: true}, err
	}
	s.Eventf(corev1.EventTypeWarning, "DeploymentRollbackRevisionNotFound", "RollBack", "%v", err)
	s.Update.RollbackTo = contract.Cleared[int64]()
	return engine.Result{}, s.Commit(ctx)
}

// revisionOf returns the set of a revision whose template differs from the deployment's; 0 is the highest revision before that of the
// deployment's template. While no numbered set has that template, it is the highest of all: the current set is not created yet, or not
// numbered. Sets in deletion do not count.
func revisionOf(sets []*set, revision int64) (*set, error) {
	known := slices.DeleteFunc(slices.Clone(sets), func(one *set) bool { return !one.Deleting.IsZero() || one.revision() == 0 })
	slices.SortFunc(known, func(a, b *set) int {
		return cmp.Or(cmp.Compare(b.revision(), a.revision()), a.Created.Compare(b.Created), cmp.Compare(a.Key.Name, b.Key.Name))
	})
	// If a set matches, the newest other set would be wrong: a request that is repeated after a lost answer, before the target set has a new
	// number, would return to the former template.
	newest := revision == 0 && !slices.ContainsFunc(known, func(one *set) bool { return len(one.diff) == 0 })
	at := slices.IndexFunc(known, func(one *set) bool {
		return newest || one.revision() == revision || revision == 0 && one.revision() < known[0].revision()
	})
	switch {
	case at < 0 && revision == 0:
		return nil, fmt.Errorf("%w: there is no earlier revision", ErrRevision)
	case at < 0:
		return nil, fmt.Errorf("%w: there is no revision %d", ErrRevision, revision)
	case len(known[at].diff) == 0:
		return nil, fmt.Errorf("%w: the template is that of revision %d already", ErrRevision, known[at].revision())
	}
	return known[at], nil
}

// copyTemplate writes the template of a set, and its change cause, to the deployment, on the version that was read, and removes the request
// for a rollback.
func copyTemplate(ctx context.Context, w *patch.Writer, kinds contract.Kinds, deployment, set contract.Object) error {
	kind := children.Also(kinds.Deployment, func(obj contract.Object, _ *contract.MachineDeploymentUpdate) error {
		return kinds.SetMaker.CopyTemplate(set, obj)
	})
	u := contract.MachineDeploymentUpdate{RollbackTo: contract.Cleared[int64]()}
	cause := contract.Cleared[string]()
	if text, found := set.GetAnnotations()[ChangeCauseAnnotation]; found {
		cause = contract.SetTo(text)
	}
	u.Annotations = map[string]contract.Change[string]{ChangeCauseAnnotation: cause}
	_, err := engine.Write(ctx, w, kind, deployment, u)
	return err
}
