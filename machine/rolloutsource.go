package machine

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
)

// Source implements Ports.RolloutEvents: it wakes the Machines of a MachineDeployment when the deployment or one of its MachineSets is
// created, deleted or has a changed spec. Changes of counters in their status wake no Machine. A kind that is not installed is looked for
// again every ten seconds.
func (r *Rollouts) Source(machines RolloutMapper) source.Source {
	return &rolloutSource{rollouts: r, machines: machines}
}

type rolloutSource struct {
	rollouts *Rollouts
	machines RolloutMapper
}

// String names the source in logs.
func (s *rolloutSource) String() string { return "MachineSets and MachineDeployments of Machines" }

// notInstalledRetry: discovery has no events.
const notInstalledRetry = 10 * time.Second

// Start implements controller-runtime's Source. It does not block.
func (s *rolloutSource) Start(ctx context.Context, q queue) error {
	go s.listen(ctx, q)
	return nil
}

// listen listens to both kinds, and wakes the Machines of all deployments when both are known: earlier passes could not decide.
func (s *rolloutSource) listen(ctx context.Context, q queue) {
	informers := make([]toolscache.InformerSynced, 0, 2)
	for _, obj := range s.rollouts.kinds() {
		err := wait.PollUntilContextCancel(ctx, notInstalledRetry, true, func(ctx context.Context) (bool, error) {
			informer, err := s.rollouts.cache.GetInformer(ctx, obj, cache.BlockUntilSynced(false))
			if err != nil {
				return false, nil //nolint:nilerr // the passes of Machines report it
			}
			_, err = informer.AddEventHandler(s.handler(q))
			informers = append(informers, informer.HasSynced)
			return err == nil, nil
		})
		if err != nil {
			return // the context has ended
		}
	}
	if !toolscache.WaitForCacheSync(ctx.Done(), informers...) {
		return
	}
	list, ok := s.rollouts.deployments.NewList().(client.ObjectList)
	if !ok || s.rollouts.cache.List(ctx, list, client.UnsafeDisableDeepCopy) != nil {
		return
	}
	_ = eachObject(list, func(obj client.Object) { s.wake(q, obj) }) // it returns no error of its own
}

// handler wakes the Machines of a deployment when one of its objects changes.
func (s *rolloutSource) handler(q queue) toolscache.ResourceEventHandler {
	wake := func(raw any) {
		if obj, ok := external.EventObject(raw); ok {
			s.wake(q, obj)
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: wake,
		UpdateFunc: func(before, after any) {
			old, ok := before.(client.Object)
			now, ok2 := after.(client.Object)
			if ok && ok2 && !measuresTheSame(old, now) {
				wake(before)
				wake(after)
			}
		},
		DeleteFunc: wake,
	}
}

// measuresTheSame reports whether a change does not affect the decision whether Machines are up to date.
func measuresTheSame(old, now metav1.Object) bool {
	return old.GetUID() == now.GetUID() && old.GetGeneration() == now.GetGeneration() &&
		old.GetLabels()[contract.DeploymentNameLabel] == now.GetLabels()[contract.DeploymentNameLabel] &&
		old.GetAnnotations()[contract.RevisionAnnotation] == now.GetAnnotations()[contract.RevisionAnnotation]
}

// wake wakes the Machines of the deployment that obj is, or that it belongs to. A deployment itself does not have the label with its own
// name; it may have the label with the name of another object that created it.
func (s *rolloutSource) wake(q queue, obj client.Object) {
	names := []string{obj.GetName()}
	if label := obj.GetLabels()[contract.DeploymentNameLabel]; label != "" && label != obj.GetName() {
		names = append(names, label)
	}
	for _, name := range names {
		for _, request := range s.machines(types.NamespacedName{Namespace: obj.GetNamespace(), Name: name}) {
			q.Add(request)
		}
	}
}
