package machineset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/machineset/children"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// maxFailed is the number of failures after which a pass tries no more Machines: more failures would have the same cause.
const maxFailed = 8

// failedLast puts what failed the last time behind the others, so that it does not delay them.
func failedLast[T any](all []T, failed func(T) bool) []T {
	last := slices.DeleteFunc(slices.Clone(all), func(one T) bool { return !failed(one) })
	return append(slices.DeleteFunc(slices.Clone(all), failed), last...)
}

func byText(a, b error) int { return cmp.Compare(a.Error(), b.Error()) }

// delete requests the deletion of Machines, in order: one, and after each success twice as many at a time. A rejected one does not delay
// the others, and no other one is deleted in its place. Caches may be stale, so the API server is asked once whether the set still has this
// number of replicas, whether as many Machines exist, and whether the same ones are marked.
func (s *Scope) delete(ctx context.Context, victims []scale.Victim) error {
	victims, err := s.confirm(ctx, victims)
	if err != nil {
		return err
	}
	mem := s.mem
	victims = failedLast(victims, func(v scale.Victim) bool { return mem.refused[v.UID] })
	batches := scale.Batches{Ceiling: s.env.options.Parallel}
	var names []string
	var failed []error
	for len(victims) > 0 && len(failed) < maxFailed {
		n, before := batches.Next(len(victims)), len(failed)
		for i, err := range s.deleteBatch(ctx, victims[:n]) {
			if mem.attempted(victims[i].UID, err); err != nil {
				failed = append(failed, err)
				continue
			}
			mem.asked[victims[i].UID] = true
			names = append(names, victims[i].Name)
		}
		if victims = victims[n:]; len(failed) > before {
			batches = scale.Batches{Ceiling: s.env.options.Parallel}
		}
	}
	slices.SortFunc(failed, byText)
	if len(names) > 0 {
		s.Eventf(corev1.EventTypeNormal, eventDelete, actionDelete, "Deleted %s", children.Named(names))
	}
	if len(failed) > 0 {
		s.Eventf(corev1.EventTypeWarning, eventFailedDelete, actionDelete, "Failed to delete Machines: %v", failed[0])
		s.trouble.deletion = slices.DeleteFunc(slices.Clone(failed), pass.IsStale)
	}
	return errors.Join(failed...)
}

// confirm returns the victims that may go as the API server itself knows the set and its Machines.
func (s *Scope) confirm(ctx context.Context, victims []scale.Victim) ([]scale.Victim, error) {
	set, err := s.liveSet(ctx)
	if err != nil {
		return nil, err
	}
	if set.GetResourceVersion() != s.Object.GetResourceVersion() {
		return nil, fmt.Errorf("%w: %s %s has changed", pass.ErrStale, s.env.kinds.Set.GVK.Kind, s.State.Key)
	}
	live, err := s.ownLive(ctx)
	if err != nil {
		return nil, err
	}
	spare := -int(s.State.Replicas.Or(0))
	if !s.State.Deleting.IsZero() {
		spare = 0
	} else if err := s.seesMarks(live); err != nil {
		return nil, err
	}
	for _, m := range live {
		if m.DeletionTimestamp == nil {
			spare++
		}
	}
	var confirmed []scale.Victim
	for _, v := range victims {
		if m, found := live[v.Name]; found && m.UID == v.UID && m.DeletionTimestamp == nil && len(confirmed) < spare {
			confirmed = append(confirmed, v)
		}
	}
	if len(confirmed) < len(victims) {
		s.Requeue(pass.ConflictRetry)
	}
	return confirmed, nil
}

// seesMarks confirms that the Machines to delete were chosen by the marks that Machines have now. A client that marks a Machine and then
// reduces the replicas, as cluster-autoscaler does, writes two objects: the cache of sets may show its write before the cache of Machines
// does.
func (s *Scope) seesMarks(live map[string]metav1.PartialObjectMetadata) error {
	for _, m := range s.observed {
		now, found := live[m.state.Key.Name]
		if !found || now.UID != m.state.UID {
			continue
		}
		for _, key := range []string{scale.DeleteAnnotation, scale.PriorityAnnotation, scale.MarkedAtAnnotation} {
			before, had := m.state.Annotations[key]
			if after, has := now.Annotations[key]; had != has || before != after {
				return fmt.Errorf("%w: %s of %s %s has changed", pass.ErrStale, key, s.env.kinds.Machine.GVK.Kind, m.state.Key)
			}
		}
	}
	return nil
}

func (s *Scope) deleteBatch(ctx context.Context, victims []scale.Victim) []error {
	errs := make([]error, len(victims))
	var running sync.WaitGroup
	for i, v := range victims {
		running.Go(func() { errs[i] = s.deleteOne(ctx, v.Name, v.UID) })
	}
	running.Wait()
	return errs
}

func (s *Scope) deleteOne(ctx context.Context, name string, uid types.UID) error {
	machine := pass.NewObject(s.env.kinds.Machine)
	machine.SetNamespace(s.State.Key.Namespace)
	machine.SetName(name)
	err := s.env.frame.Ports.Client.Delete(ctx, machine, client.Preconditions{UID: &uid})
	if err != nil && !external.SaysGone(err) {
		return fmt.Errorf("delete %s %s: %w", s.env.kinds.Machine.GVK.Kind, s.key(name), err)
	}
	return nil
}
