package machine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/noderef/propagate"
)

// Rollout is the specification that a Machine is compared with to decide whether it is up to date. Strings, maps and slices are read-only
// views.
type Rollout struct {
	// Found is true when the Machine has both a MachineSet and a MachineDeployment. Without them there is nothing to compare with, and the
	// condition UpToDate stays as it is: another controller may set it.
	Found bool
	// Unread is true when that is not known yet: everything stays as it is, and RolloutEvents wakes the Machine.
	Unread bool
	// Set is the MachineSet that controls the Machine, Deployment the MachineDeployment that controls the set.
	Set        contract.MachineSetState
	Deployment contract.MachineDeploymentState
}

// RolloutMapper returns the Machines of a MachineDeployment. It reads a cache, and may be called from several goroutines.
type RolloutMapper func(deployment types.NamespacedName) []reconcile.Request

// inDeployment returns the Machines that carry the label of a MachineDeployment.
func (r *Reconciler) inDeployment(ctx context.Context, deployment types.NamespacedName) []reconcile.Request {
	return r.machinesByKey(ctx, deployment.Namespace, deploymentKey(deployment.Name))
}

// upToDateFacts are the inputs of decideUpToDate.
type upToDateFacts struct {
	Rollout *Rollout
	// Updating is the condition.
	Updating metav1.Condition
	// Version is the version in the Machine's spec and KubeletVersion the one that its Node reports, empty without.
	Version, KubeletVersion string
	Now                     time.Time
}

// decideUpToDate compares the set's template with the deployment's, because rollouts depend on these; manual changes of a Machine do not
// count. again is when a scheduled rollout is due, zero without. Rule: Cluster API's setUpToDateCondition and MachineTemplateUpToDate.
func decideUpToDate(f upToDateFacts) (c metav1.Condition, again time.Duration) {
	lines := templateDiff(&f.Rollout.Set.Template.MachineSpec, &f.Rollout.Deployment.Template.MachineSpec)
	if after := f.Rollout.Deployment.RolloutAfter; !after.IsZero() && f.Rollout.Set.Created.Before(after) {
		if left := after.Sub(f.Now); left >= 0 {
			again = left + time.Second // it has to be over
		} else {
			lines = append(lines, "MachineDeployment spec.rolloutAfter expired")
		}
	}
	notUpToDate := func(reason, message string) (metav1.Condition, time.Duration) {
		return pass.Condition(contract.ConditionUpToDate, metav1.ConditionFalse, reason, "* "+message), again
	}
	switch {
	case len(lines) > 0:
		return notUpToDate(contract.ReasonNotUpToDate, strings.Join(lines, "\n* "))
	case f.Updating.Status == metav1.ConditionTrue:
		return notUpToDate(ReasonUpdating, cmp.Or(f.Updating.Message, "In-place update in progress"))
	case f.Version != "" && f.KubeletVersion != "" && f.KubeletVersion != f.Version:
		return notUpToDate(ReasonUpdating, fmt.Sprintf("Node.status.nodeInfo.kubeletVersion %s, %s required", f.KubeletVersion, f.Version))
	}
	return pass.Condition(contract.ConditionUpToDate, metav1.ConditionTrue, contract.ReasonUpToDate, ""), again
}

// templateDiff names the fields that cannot be changed in place and differ between two templates.
func templateDiff(current, desired *contract.MachineSpec) []string {
	var lines []string
	if current.Version != desired.Version {
		lines = append(lines, fmt.Sprintf("Version %s, %s required", current.Version, desired.Version))
	}
	if current.Bootstrap != desired.Bootstrap || current.DataSecretName != desired.DataSecretName {
		if current.Bootstrap.IsZero() {
			lines = append(lines, fmt.Sprintf("spec.bootstrap.dataSecretName %s, %s required",
				current.DataSecretName.Or("nil"), desired.DataSecretName.Or("nil")))
		} else {
			lines = append(lines, strings.TrimSuffix(current.Bootstrap.Kind, "Template")+" is not up-to-date")
		}
	}
	if current.Infrastructure != desired.Infrastructure {
		lines = append(lines, strings.TrimSuffix(current.Infrastructure.Kind, "Template")+" is not up-to-date")
	}
	if current.WantedFailureDomain != desired.WantedFailureDomain {
		lines = append(lines, fmt.Sprintf("Failure domain %s, %s required", current.WantedFailureDomain, desired.WantedFailureDomain))
	}
	return lines
}

// rollout calls RolloutOf once in a pass, unless the Machine is being deleted.
func (s *Scope) rollout(ctx context.Context) (*Rollout, error) {
	ask := s.env.ports.RolloutOf
	if ask == nil || !s.State.Deleting.IsZero() {
		return &Rollout{Unread: true}, nil
	}
	if s.measure == nil && s.measureErr == nil {
		found, err := ask(ctx, &s.State)
		if err != nil {
			s.measureErr = fmt.Errorf("read the MachineSet and the MachineDeployment: %w", err)
		}
		s.measure = &found
	}
	return s.measure, s.measureErr
}

// assertUpToDate returns when UpToDate changes with time. While the rollout is unknown the stored condition stays; a Machine of a
// deployment without a stored condition gets one.
func (s *Scope) assertUpToDate(ctx context.Context) (time.Duration, error) {
	found, err := s.rollout(ctx)
	switch {
	case err != nil || (found.Unread && s.State.Deleting.IsZero() && s.env.ports.RolloutOf != nil):
		if _, said := s.Condition(contract.ConditionUpToDate); !said && s.State.Labels[contract.DeploymentNameLabel] != "" {
			s.Assert(pass.Condition(contract.ConditionUpToDate, metav1.ConditionUnknown, contract.ReasonInternalError, pass.SeeLogs))
		}
		return 0, err
	case found.Unread || !found.Found:
		return 0, nil
	}
	facts := upToDateFacts{Rollout: found, Version: s.State.Version, Now: s.Now}
	facts.Updating, _ = s.Condition(ConditionUpdating)
	if node := s.Node.Node; node != nil {
		facts.KubeletVersion = node.Status.NodeInfo.KubeletVersion
	}
	c, again := decideUpToDate(facts)
	s.Assert(c)
	return again, nil
}

// outdatedTaint asks schedulers to prefer Nodes that are not about to be replaced. Rule: Cluster API proposal
// 20230522, "NodeOutdatedRevisionTaint".
func outdatedTaint() corev1.Taint {
	return corev1.Taint{Key: "node.cluster.x-k8s.io/outdated-revision", Effect: corev1.TaintEffectPreferNoSchedule}
}

// decideOutdated reports whether a Node should have the taint: its MachineSet has an older revision than its MachineDeployment. known is
// false while a revision is unknown; then the taint stays as it is.
func decideOutdated(r *Rollout) (outdated, known bool) {
	if r.Unread {
		return false, false
	}
	if !r.Found {
		return false, true
	}
	set, ok := revisionOf(&r.Set.Metadata)
	deployment, ok2 := revisionOf(&r.Deployment.Metadata)
	return set < deployment, ok && ok2
}

// revisionOf returns 0 without a revision, and false for one that is not a number.
func revisionOf(m *contract.Metadata) (int64, bool) {
	text, found := m.Annotations[contract.RevisionAnnotation]
	if !found {
		return 0, true
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}

// markOutdated adds the taint of an outdated revision to the desired state of a Node, or its absence. The error of a failed lookup is
// reported with the condition UpToDate.
func (s *Scope) markOutdated(ctx context.Context, d *propagate.Desired) {
	found, err := s.rollout(ctx)
	if err != nil {
		return
	}
	outdated, known := decideOutdated(found)
	switch {
	case !known:
	case outdated: // not recorded as managed by the Machine, because it is not
		d.Taints = append(d.Taints, propagate.Taint{Taint: outdatedTaint(), Propagation: propagate.WhenMissing})
	default:
		d.WithoutTaints = append(d.WithoutTaints, outdatedTaint())
	}
}

// Rollouts looks up the MachineSet that owns a Machine, by its owner reference, and the MachineDeployment that the set's label
// contract.DeploymentNameLabel names. It is made for the ports of a Reconciler:
//
//	rollouts, err := machine.RolloutFromManager(mgr, sets, deployments)
//	ports.RolloutOf, ports.RolloutEvents = rollouts.Of, rollouts.Source
//
// It reads a cache, and needs list and watch of both kinds. Safe for concurrent use.
type Rollouts struct {
	cache       cache.Cache
	sets        contract.MachineSetKind
	deployments contract.MachineDeploymentKind
}

// RolloutFromManager returns the Rollouts of a manager's cache. The kinds define how MachineSets and MachineDeployments are read, for
// example contract.Unstructured(gvk, contract.MachineSetV1Beta2()). The error names what is wrong with them.
func RolloutFromManager(mgr ctrl.Manager, sets contract.MachineSetKind, deployments contract.MachineDeploymentKind) (*Rollouts, error) {
	return RolloutFromCache(mgr.GetCache(), sets, deployments)
}

// RolloutFromCache is RolloutFromManager for any cache, which the caller starts.
func RolloutFromCache(c cache.Cache, sets contract.MachineSetKind, deployments contract.MachineDeploymentKind) (*Rollouts, error) {
	return &Rollouts{cache: c, sets: sets, deployments: deployments},
		errors.Join(checkKind("MachineSet", sets), checkKind("MachineDeployment", deployments))
}

func checkKind[S, U any](name string, kind contract.KindOf[S, U]) error {
	if kind.New == nil || kind.NewList == nil || kind.Adapter == nil || kind.GVK.Empty() {
		return fmt.Errorf("the kind of %s needs a GVK, New, NewList and an Adapter", name)
	}
	if _, ok := kind.New().(client.Object); !ok {
		return fmt.Errorf("%s is no client.Object", kind.GVK)
	}
	return nil
}

// Of implements Ports.RolloutOf. It makes no request and does not block: an object that is not in the cache yet is Unread, and a set or a
// deployment that does not exist is not Found.
func (r *Rollouts) Of(ctx context.Context, state *contract.MachineState) (Rollout, error) {
	owner, owned := r.ownerOf(state)
	if !owned {
		return Rollout{}, nil
	}
	known, err := r.synced(ctx)
	if err != nil || !known {
		return Rollout{Unread: true}, err
	}
	var found Rollout
	set := types.NamespacedName{Namespace: state.Key.Namespace, Name: owner.Name}
	there, err := read(ctx, r.cache, r.sets, set, &found.Set)
	if err != nil || !there || found.Set.UID != owner.UID {
		return Rollout{}, err
	}
	name := found.Set.Labels[contract.DeploymentNameLabel]
	if name == "" {
		return Rollout{}, nil
	}
	deployment := types.NamespacedName{Namespace: state.Key.Namespace, Name: name}
	there, err = read(ctx, r.cache, r.deployments, deployment, &found.Deployment)
	if err != nil || !there {
		return Rollout{}, err
	}
	found.Found = true
	return found, nil
}

// ownerOf returns the reference to the MachineSet of a Machine, of whatever version.
func (r *Rollouts) ownerOf(state *contract.MachineState) (metav1.OwnerReference, bool) {
	at := slices.IndexFunc(state.OwnerReferences, func(ref metav1.OwnerReference) bool {
		return ref.Kind == r.sets.GVK.Kind && pass.Group(ref.APIVersion) == r.sets.GVK.Group
	})
	if at < 0 {
		return metav1.OwnerReference{}, false
	}
	return state.OwnerReferences[at], true
}

// synced reports whether both kinds are completely in the cache.
func (r *Rollouts) synced(ctx context.Context) (bool, error) {
	for _, obj := range r.kinds() {
		informer, err := r.cache.GetInformer(ctx, obj, cache.BlockUntilSynced(false))
		if meta.IsNoMatchError(err) {
			return false, nil // the kind is not installed (yet)
		}
		if err != nil {
			return false, fmt.Errorf("watch %s: %w", obj.GetObjectKind().GroupVersionKind().Kind, err)
		}
		if !informer.HasSynced() {
			return false, nil
		}
	}
	return true, nil
}

// kinds are empty objects of both kinds.
func (r *Rollouts) kinds() []client.Object {
	set, _ := r.sets.New().(client.Object) // the constructor has checked this
	deployment, _ := r.deployments.New().(client.Object)
	return []client.Object{set, deployment}
}

// read fills a state from the cache, and returns false when the object does not exist.
func read[S, U any](ctx context.Context, c client.Reader, kind contract.KindOf[S, U], key types.NamespacedName, into *S) (bool, error) {
	obj, _ := kind.New().(client.Object)
	err := c.Get(ctx, key, obj)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read %s %s: %w", kind.GVK.Kind, key, err)
	}
	return true, kind.Adapter.Read(obj, into)
}

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
	_ = pass.EachObject(list, func(obj client.Object) { s.wake(q, obj) }) // it returns no error of its own
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
			if ok && ok2 && !sameRollout(old, now) {
				wake(before)
				wake(after)
			}
		},
		DeleteFunc: wake,
	}
}

// sameRollout reports whether a change does not affect the decision whether Machines are up to date.
func sameRollout(old, now metav1.Object) bool {
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
