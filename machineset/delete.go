package machineset

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// delete asks for the deletion of Machines, in order: one, and after each success twice as many at a time. Caches may be old, so
// the API server itself is asked once whether the set still wants that, whether as many are there as was thought, and whether they are
// marked as was thought.
func (p *pass) delete(ctx context.Context, victims []scale.Victim) error {
	victims, err := p.confirm(ctx, victims)
	if err != nil {
		return err
	}
	batches := scale.Batches{Ceiling: p.env.options.Parallel}
	var names []string
	var failed []error
	for len(victims) > 0 && len(failed) == 0 {
		n := batches.Next(len(victims))
		for i, err := range p.deleteBatch(ctx, victims[:n]) {
			if err != nil {
				failed = append(failed, err)
				continue
			}
			p.mem().asked[victims[i].UID] = true
			names = append(names, victims[i].Name)
		}
		victims = victims[n:]
	}
	if len(names) > 0 {
		p.tell(corev1.EventTypeNormal, eventDelete, actionDelete, "Deleted %s", named(names))
	}
	if len(failed) > 0 {
		p.tell(corev1.EventTypeWarning, eventFailedDelete, actionDelete, "Failed to delete Machines: %v", failed[0])
	}
	return errors.Join(failed...)
}

// confirm returns the victims that may go as the API server itself knows the set and its Machines.
func (p *pass) confirm(ctx context.Context, victims []scale.Victim) ([]scale.Victim, error) {
	set, err := p.liveSet(ctx)
	if err != nil {
		return nil, err
	}
	if set.GetResourceVersion() != p.set.GetResourceVersion() {
		return nil, fmt.Errorf("%w: %s %s has changed", errStale, p.env.kinds.Set.GVK.Kind, p.state.Key)
	}
	live, err := p.ownLive(ctx)
	if err != nil {
		return nil, err
	}
	spare := -int(p.state.Replicas.Or(0))
	if !p.state.Deleting.IsZero() {
		spare = 0
	} else if err := p.seesMarks(live); err != nil {
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
		p.requeue(conflictRetry)
	}
	return confirmed, nil
}

// seesMarks makes sure that who goes was decided on the marks that Machines have now. Whoever marks a Machine and then wants one less, as
// cluster-autoscaler does, writes two objects: the cache of the set may show it before that of the Machines does.
func (p *pass) seesMarks(live map[string]metav1.PartialObjectMetadata) error {
	for _, m := range p.observed {
		now, found := live[m.state.Key.Name]
		if !found || now.UID != m.state.UID {
			continue
		}
		for _, key := range []string{scale.DeleteAnnotation, scale.PriorityAnnotation, scale.MarkedAtAnnotation} {
			before, had := m.state.Annotations[key]
			if after, has := now.Annotations[key]; had != has || before != after {
				return fmt.Errorf("%w: %s of %s %s has changed", errStale, key, p.env.kinds.Machine.GVK.Kind, m.state.Key)
			}
		}
	}
	return nil
}

func (p *pass) deleteBatch(ctx context.Context, victims []scale.Victim) []error {
	errs := make([]error, len(victims))
	var running sync.WaitGroup
	for i, v := range victims {
		running.Go(func() { errs[i] = p.deleteOne(ctx, v.Name, v.UID) })
	}
	running.Wait()
	return errs
}

func (p *pass) deleteOne(ctx context.Context, name string, uid types.UID) error {
	machine := newObject(p.env.kinds.Machine)
	machine.SetNamespace(p.state.Key.Namespace)
	machine.SetName(name)
	err := p.env.ports.Client.Delete(ctx, machine, client.Preconditions{UID: &uid})
	if err != nil && !external.SaysGone(err) {
		return fmt.Errorf("delete %s %s: %w", p.env.kinds.Machine.GVK.Kind, p.key(name), err)
	}
	return nil
}
