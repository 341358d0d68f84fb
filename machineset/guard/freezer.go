package guard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/machineset/safety"
)

// DefaultFreezerPeriod is the time between two looks at a set without an event. Flag --machine-safety-overshooting-period.
const DefaultFreezerPeriod = time.Minute

// Events on sets and deployments. Those of sets are Gardener's.
const (
	EventFroze              = "FrozeMachineSet"
	EventUnfroze            = "UnfrozeMachineSet"
	EventFrozeDeployment    = "FrozeMachineDeployment"
	EventUnfrozeDeployment  = "UnfrozeMachineDeployment"
	actionFreeze            = "FreezeCreation"
	actionThaw              = "ThawCreation"
	setName, deploymentName = "machineset-safety", "machinedeployment-safety"
)

// Kinds are the kinds of objects that a Freezer looks at. Deployment may be empty, where there are none.
type Kinds struct {
	Deployment contract.MachineDeploymentKind
	Set        contract.MachineSetKind
	Machine    contract.Kind
}

// FreezerOptions configure a Freezer. The zero value is ready for use.
type FreezerOptions struct {
	// Limits are the marks of sets.
	Limits safety.Limits
	// Period is the time between two looks at a set without an event. Default DefaultFreezerPeriod.
	Period time.Duration
	// Name is put in front of the names of the two controllers, which must be unique in a process; empty adds nothing.
	Name string
	// Recorder records events; nil records none.
	Recorder events.EventRecorder
	// Clock is compared with the times of Machines. Default the real one.
	Clock clock.PassiveClock
	// WatchFilter, when it is not empty, limits the Freezer to objects whose label contract.WatchFilterLabel has this value.
	WatchFilter string
	// Metrics count what was frozen; nil counts nothing.
	Metrics *Metrics
	// Controller is passed to controller-runtime.
	Controller controller.Options
}

// Freezer freezes and thaws sets and their deployments. It has a reconciler for each kind. Safe for concurrent use.
type Freezer struct {
	// Sets reconciles sets, and Deployments deployments; nil without Kinds.Deployment. In a loop of your own, call Index first.
	Sets        *pass.Reconciler[contract.MachineSetState, contract.MachineSetUpdate, *SetScope]
	Deployments *pass.Reconciler[contract.MachineDeploymentState, contract.MachineDeploymentUpdate, *DeploymentScope]

	kinds       Kinds
	options     FreezerOptions
	sets        *pass.Frame[contract.MachineSetState, contract.MachineSetUpdate]
	deployments *pass.Frame[contract.MachineDeploymentState, contract.MachineDeploymentUpdate]
	marks       *pass.Memory[contract.Opt[int]]
}

// NewFreezer returns a Freezer. The error names everything that is wrong with its inputs; it makes no request.
func NewFreezer(kinds Kinds, ports pass.Ports, options FreezerOptions) (*Freezer, error) {
	options.Period = cmp.Or(max(options.Period, 0), DefaultFreezerPeriod)
	f := &Freezer{kinds: kinds, options: options, marks: pass.NewMemory(func() *contract.Opt[int] { return new(contract.Opt[int]) }, nil)}
	var err, later error
	f.sets, err = pass.NewFrame(kinds.Set, ports, options.frame(setName), nil)
	err = errors.Join(err, pass.CheckKind("Kinds.Machine", kinds.Machine))
	if kinds.Deployment.New != nil {
		f.deployments, later = pass.NewFrame(kinds.Deployment, ports, options.frame(deploymentName), nil)
	}
	if err := errors.Join(err, later); err != nil {
		return nil, fmt.Errorf("freezer of %s: %w", cmp.Or(kinds.Set.GVK.Kind, "a kind without a name"), err)
	}
	track(f.sets)
	f.Sets = pass.NewReconciler(pass.Kind[contract.MachineSetState, contract.MachineSetUpdate, *SetScope]{
		Frame: f.sets, Steps: []pass.Step[*SetScope]{{Name: "freeze", On: pass.InRunning, Run: freezeSet}}, Forget: f.forget,
		Flush: func(ctx context.Context, s *SetScope, _ error) error { return flush(ctx, &s.Scope) },
		NewScope: func() (*SetScope, *pass.Scope[contract.MachineSetState, contract.MachineSetUpdate]) {
			s := &SetScope{env: f}
			return s, &s.Scope
		},
	})
	if f.deployments == nil {
		return f, nil
	}
	track(f.deployments)
	f.Deployments = pass.NewReconciler(pass.Kind[contract.MachineDeploymentState, contract.MachineDeploymentUpdate, *DeploymentScope]{
		Frame: f.deployments, Steps: []pass.Step[*DeploymentScope]{{Name: "freeze", On: pass.InRunning, Run: freezeDeployment}},
		Flush:  func(ctx context.Context, s *DeploymentScope, _ error) error { return flush(ctx, &s.Scope) },
		Forget: func(key types.NamespacedName) { options.Metrics.forget(kinds.Deployment.GVK.Kind, key) },
		NewScope: func() (*DeploymentScope, *pass.Scope[contract.MachineDeploymentState, contract.MachineDeploymentUpdate]) {
			s := &DeploymentScope{env: f}
			return s, &s.Scope
		},
	})
	return f, nil
}

func (f *Freezer) forget(key types.NamespacedName) {
	f.marks.Forget(key)
	f.options.Metrics.forget(f.kinds.Set.GVK.Kind, key)
}

// frame returns the options that all kinds have. The Freezer needs no finalizer: it makes nothing.
func (o FreezerOptions) frame(name string) pass.Options {
	all := pass.Options{
		Name: o.Name + name, Recorder: o.Recorder, Clock: o.Clock, StatusDelay: -1, WatchFilter: o.WatchFilter, Controller: o.Controller,
	}.WithDefaults(name, "")
	return all
}

func track[S, U any](f *pass.Frame[S, U]) {
	f.Track("nothing", func(context.Context, client.Object, client.Object) []reconcile.Request { return nil })
}

// flush writes the object. One that is gone is no error.
func flush[S, U any](ctx context.Context, s *pass.Scope[S, U]) error {
	if err := s.Flush(ctx, pass.Writing[U]{Guarded: true}); err != nil && !external.SaysGone(err) {
		return err
	}
	return nil
}

// SetScope is one pass over one set.
type SetScope struct {
	pass.Scope[contract.MachineSetState, contract.MachineSetUpdate]

	env *Freezer
}

// DeploymentScope is one pass over one deployment.
type DeploymentScope struct {
	pass.Scope[contract.MachineDeploymentState, contract.MachineDeploymentUpdate]

	env *Freezer
}

// isPaused reports whether an object is to be left alone. The reconciler of its kind says so in the condition Paused.
func isPaused[S, U any](ctx context.Context, s *pass.Scope[S, U]) (bool, error) {
	s.ReadCluster(ctx)
	_, ends := pass.DecidePause(pass.PauseFacts{Cluster: s.Cluster, Failed: s.ClusterErr != nil, Annotated: s.Common().Paused()})
	return ends, s.ClusterErr
}

// freezeSet evaluates one set. What fails at one delays no other, because each has a pass of its own.
func freezeSet(ctx context.Context, s *SetScope) (pass.Result, error) {
	if paused, err := isPaused(ctx, &s.Scope); paused || err != nil {
		return pass.Result{RequeueAfter: s.env.options.Period}, err
	}
	mark := s.env.marks.Of(s.State.Key, s.State.UID)
	facts, err := s.facts(ctx)
	if err != nil {
		return pass.Result{}, err
	}
	facts.Mark = *mark
	verdict := safety.Evaluate(facts)
	*mark = verdict.Mark
	group := s.env.kinds.Set.GVK.Group
	asked := safety.AsksToUnfreeze(group, &s.State.Metadata)
	carry(&s.Scope, group, verdict, asked, names{EventFroze, EventUnfroze, "MachineSet"})
	frozen := facts.Freezing != safety.NotFrozen
	s.env.options.Metrics.froze(s.env.kinds.Set.GVK.Kind, s.State.Key, frozen && verdict.Action != safety.Thaw || verdict.Action == safety.Freeze,
		verdict.Action == safety.Freeze)
	return pass.Result{RequeueAfter: s.env.options.Period}, nil
}

// freezeDeployment follows the sets of one deployment.
func freezeDeployment(ctx context.Context, s *DeploymentScope) (pass.Result, error) {
	period := pass.Result{RequeueAfter: s.env.options.Period}
	if paused, err := isPaused(ctx, &s.Scope); paused || err != nil {
		return period, err
	}
	kind := s.env.kinds.Deployment.GVK
	facts := safety.Deployment{
		Freezing: safety.FreezingOf(kind.Group, &s.State.Metadata, s.State.Conditions), Unfreeze: safety.AsksToUnfreeze(kind.Group, &s.State.Metadata),
	}
	var state contract.MachineSetState
	var unread error
	err := s.env.sets.Each(ctx, s.State.Key.Namespace, parentKey(s.State.UID), func(obj client.Object) {
		if err := s.env.sets.Read(obj, &state); err != nil {
			unread = cmp.Or(unread, err)
		} else if safety.FreezingOf(s.env.kinds.Set.GVK.Group, &state.Metadata, state.Conditions) != safety.NotFrozen {
			facts.Frozen = append(facts.Frozen, obj.GetName())
		}
	})
	if err := errors.Join(err, unread); err != nil {
		return pass.Result{}, err
	}
	slices.Sort(facts.Frozen)
	verdict := safety.Follow(facts)
	carry(&s.Scope, kind.Group, verdict, facts.Unfreeze && len(facts.Frozen) == 0,
		names{EventFrozeDeployment, EventUnfrozeDeployment, "MachineDeployment"})
	s.env.options.Metrics.froze(kind.Kind, s.State.Key, facts.Freezing != safety.NotFrozen && verdict.Action != safety.Thaw ||
		verdict.Action == safety.Freeze, verdict.Action == safety.Freeze)
	return period, nil
}

// names are the reasons of events, and what they call the object.
type names struct{ froze, unfroze, kind string }

// carry puts a verdict into the object. asked: the request to unfreeze has to go, because it was followed or there was nothing to follow. A
// condition without its label, and a label without its condition, are what a crash between the two writes leaves.
func carry[S, U any](s *pass.Scope[S, U], group string, v safety.Verdict, asked bool, n names) {
	common, changes := s.Common(), pass.ChangesOf(&s.Update)
	said, found := pass.Find(s.Stored, safety.ConditionFrozen)
	freezing := safety.FreezingOf(group, common.Metadata, common.Conditions)
	var labels contract.MetadataUpdate
	switch {
	case v.Action == safety.Freeze:
		labels = safety.Labels(group, v.Reason)
		s.Assert(pass.Condition(safety.ConditionFrozen, metav1.ConditionTrue, v.Reason, v.Message))
		s.Eventf(corev1.EventTypeWarning, n.froze, actionFreeze, "Froze %s: %s", n.kind, v.Message)
	case v.Action == safety.Thaw || asked:
		labels = safety.Labels(group, "")
		removeFrozen(s, found)
		if freezing != safety.NotFrozen {
			s.Eventf(corev1.EventTypeNormal, n.unfroze, actionThaw, "Unfroze %s: %s", n.kind, v.Message)
		}
	case freezing == safety.NotFrozen && found:
		removeFrozen(s, true)
	case freezing == safety.FrozenByGuard && !found:
		reason := cmp.Or(common.Annotations[safety.FrozenByAnnotation], safety.ReasonOverShooting)
		s.Assert(pass.Condition(safety.ConditionFrozen, metav1.ConditionTrue, reason, "It creates nothing"))
	case found && said.Status != metav1.ConditionTrue && freezing == safety.FrozenByPerson:
		removeFrozen(s, true)
	}
	changes.Labels, changes.Annotations = merged(changes.Labels, labels.Labels), merged(changes.Annotations, labels.Annotations)
}

func removeFrozen[S, U any](s *pass.Scope[S, U], found bool) {
	if !found {
		return
	}
	if set, ok := any(&s.Update).(*contract.MachineSetUpdate); ok {
		set.RemoveConditions = []string{safety.ConditionFrozen}
	}
	if deployment, ok := any(&s.Update).(*contract.MachineDeploymentUpdate); ok {
		deployment.RemoveConditions = []string{safety.ConditionFrozen}
	}
}

func merged(have, more map[string]contract.Change[string]) map[string]contract.Change[string] {
	if have == nil {
		return more
	}
	maps.Copy(have, more)
	return have
}
