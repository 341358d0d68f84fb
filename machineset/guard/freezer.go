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
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/machineset/safety"
)

// DefaultFreezerPeriod is the time between two looks at a set without an event. Flag --machine-safety-overshooting-period.
const DefaultFreezerPeriod = time.Minute

// Prefixes of the reasons of events on sets and deployments; the kind follows. FrozeMachineSet and UnfrozeMachineSet are Gardener's.
const (
	EventFroze   = "Froze"   // the set or deployment was frozen; the message gives the numbers
	EventUnfroze = "Unfroze" // the set or deployment may create again
	actionFreeze = "FreezeCreation"
	stepFreeze   = "freeze"
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

// scope is one pass over a set or a deployment.
type scope[S, U any] struct {
	engine.Scope[S, U]

	env *Freezer
}

type (
	// setScope is a pass over a set.
	setScope = scope[contract.MachineSetState, contract.MachineSetUpdate]
	// deploymentScope is a pass over a deployment.
	deploymentScope = scope[contract.MachineDeploymentState, contract.MachineDeploymentUpdate]
)

// Freezer freezes and thaws sets and their deployments. It has a reconciler for each kind. Safe for concurrent use.
type Freezer struct {
	// Sets reconciles sets, and Deployments deployments; nil without Kinds.Deployment. In a loop of your own, call Index first.
	Sets        *engine.Reconciler[contract.MachineSetState, contract.MachineSetUpdate, *setScope]
	Deployments *engine.Reconciler[contract.MachineDeploymentState, contract.MachineDeploymentUpdate, *deploymentScope]

	kinds       Kinds
	options     FreezerOptions
	sets        *engine.Frame[contract.MachineSetState, contract.MachineSetUpdate]
	deployments *engine.Frame[contract.MachineDeploymentState, contract.MachineDeploymentUpdate]
	marks       *engine.Memory[contract.Opt[int]]
}

// NewFreezer returns a Freezer. The error names everything that is wrong with its inputs; it makes no request. The names of its controllers
// are those of the kinds in lower case with -safety behind.
func NewFreezer(kinds Kinds, ports engine.Ports, options FreezerOptions) (*Freezer, error) {
	options.Period = cmp.Or(max(options.Period, 0), DefaultFreezerPeriod)
	f := &Freezer{kinds: kinds, options: options, marks: engine.NewMemory(func() *contract.Opt[int] { return new(contract.Opt[int]) }, nil)}
	var err, later error
	f.sets, err = frame(kinds.Set, ports, "machineset-safety", options)
	err = errors.Join(err, engine.CheckKind("Kinds.Machine", kinds.Machine))
	if kinds.Deployment.New != nil {
		f.deployments, later = frame(kinds.Deployment, ports, "machinedeployment-safety", options)
	}
	if err := errors.Join(err, later); err != nil {
		return nil, fmt.Errorf("freezer of %s: %w", cmp.Or(kinds.Set.GVK.Kind, "a kind without a name"), err)
	}
	f.Sets = reconciler(f, f.sets, decideSet)
	if f.deployments != nil {
		f.Deployments = reconciler(f, f.deployments, decideDeployment)
	}
	return f, nil
}

func frame[S, U any, PS engine.State[S], PU engine.Update[U]](
	kind contract.KindOf[S, U], ports engine.Ports, name string, o FreezerOptions,
) (*engine.Frame[S, U], error) {
	f, err := engine.NewFrame[S, U, PS, PU](kind, "", ports, engine.WithDefaults(engine.Options{
		Name: name, Recorder: o.Recorder, Clock: o.Clock, StatusDelay: -1, WatchFilter: o.WatchFilter, Controller: o.Controller,
	}, name), nil) // it needs no finalizer: it makes nothing
	if err == nil {
		f.Track("nothing", func(context.Context, client.Object, client.Object) []reconcile.Request { return nil })
	}
	return f, err
}

// reconciler returns the reconciler of a kind with a decision: how an object is frozen, what to do, and whether a request to unfreeze goes.
func reconciler[S, U any](f *Freezer, frame *engine.Frame[S, U],
	decide func(context.Context, *scope[S, U]) (safety.Freezing, safety.Verdict, bool, error),
) *engine.Reconciler[S, U, *scope[S, U]] {
	gvk := frame.Kind.GVK
	run := func(ctx context.Context, s *scope[S, U]) (engine.Result, error) {
		result := engine.Result{RequeueAfter: f.options.Period}
		s.ReadCluster(ctx)
		facts := engine.PauseFacts{Cluster: s.Cluster, Failed: s.ClusterErr != nil, Annotated: s.Common().Paused()}
		if _, paused := engine.DecidePause(facts); paused || s.ClusterErr != nil { // the reconciler of the kind says so
			return result, s.ClusterErr
		}
		freezing, verdict, asked, err := decide(ctx, s)
		if err != nil {
			return engine.Result{}, err
		}
		frozen := verdict.Action == safety.Freeze || (freezing != safety.NotFrozen && verdict.Action != safety.Thaw)
		carry(s, gvk.Group, gvk.Kind, verdict, asked, frozen)
		f.options.Metrics.froze(gvk.Kind, s.Common().Key, frozen)
		return result, nil
	}
	return engine.NewReconciler(engine.Kind[S, U, *scope[S, U]]{
		Frame: frame, Steps: []engine.Step[*scope[S, U]]{{Name: stepFreeze, On: engine.InRunning, Run: run}},
		NewScope: func() (*scope[S, U], *engine.Scope[S, U]) {
			s := &scope[S, U]{env: f}
			return s, &s.Scope
		},
		Flush: func(ctx context.Context, s *scope[S, U], _ error) error {
			if err := s.Flush(ctx, engine.Writing[U]{Guarded: true}); err != nil && !external.SaysGone(err) {
				return err
			}
			return nil
		},
		Forget: func(key types.NamespacedName) {
			if gvk == f.kinds.Set.GVK {
				f.marks.Forget(key)
			}
			f.options.Metrics.froze(gvk.Kind, key, false)
		},
	})
}

// decideSet evaluates one set. What fails at one delays no other, because each has a pass of its own.
func decideSet(ctx context.Context, s *setScope) (safety.Freezing, safety.Verdict, bool, error) {
	facts, err := s.env.setFacts(ctx, s)
	if err != nil {
		return facts.Freezing, safety.Verdict{}, false, err
	}
	mark := s.env.marks.Of(s.State.Key, s.State.UID)
	facts.Mark = *mark
	verdict := safety.Evaluate(facts)
	*mark = verdict.Mark
	return facts.Freezing, verdict, safety.AsksToUnfreeze(s.env.kinds.Set.GVK.Group, &s.State.Metadata), nil
}

// decideDeployment follows the sets of one deployment.
func decideDeployment(ctx context.Context, s *deploymentScope) (safety.Freezing, safety.Verdict, bool, error) {
	group, sets := s.env.kinds.Deployment.GVK.Group, s.env.sets
	facts := safety.Deployment{
		Freezing: safety.FreezingOf(group, &s.State.Metadata, s.State.Conditions), Unfreeze: safety.AsksToUnfreeze(group, &s.State.Metadata),
	}
	var unread error
	err := sets.Each(ctx, s.State.Key.Namespace, parentKey(s.State.UID), func(obj client.Object) {
		var set contract.MachineSetState
		if err := sets.Read(obj, &set); err != nil {
			unread = cmp.Or(unread, err)
		} else if safety.FreezingOf(sets.Kind.GVK.Group, &set.Metadata, set.Conditions) != safety.NotFrozen {
			facts.Frozen = append(facts.Frozen, obj.GetName())
		}
	})
	slices.Sort(facts.Frozen)
	return facts.Freezing, safety.Follow(facts), facts.Unfreeze && len(facts.Frozen) == 0, errors.Join(err, unread)
}

// carry puts a verdict into the object. asked: the request to unfreeze has to go. The condition and the annotation follow the label, also
// where a crash or a person has left them without it.
func carry[S, U any](s *scope[S, U], group, kind string, v safety.Verdict, asked, frozen bool) {
	changes := engine.ChangesOf(&s.Update)
	reason, left := s.Common().Annotations[safety.FrozenByAnnotation]
	var labels contract.MetadataUpdate
	switch {
	case v.Action == safety.Freeze:
		labels, reason = safety.Labels(group, v.Reason), v.Reason
		s.Eventf(corev1.EventTypeWarning, EventFroze+kind, actionFreeze, "Froze %s: %s", kind, v.Message)
	case v.Action == safety.Thaw || asked:
		labels = safety.Labels(group, "")
		if v.Action == safety.Thaw {
			s.Eventf(corev1.EventTypeNormal, EventUnfroze+kind, actionFreeze, "Unfroze %s: %s", kind, v.Message)
		}
	case !frozen && left: // a person has removed the label alone: a later freeze of a person would count as one of the guard
		labels.Annotations = map[string]contract.Change[string]{safety.FrozenByAnnotation: contract.Cleared[string]()}
	}
	changes.Labels, changes.Annotations = maps.Clone(labels.Labels), maps.Clone(labels.Annotations)
	said, found := engine.Find(s.Stored, safety.ConditionFrozen)
	switch {
	case frozen && v.Action != safety.Freeze && (found || reason == ""): // it says so already, or a person's label is enough
	case frozen:
		s.Assert(engine.Condition(safety.ConditionFrozen, metav1.ConditionTrue, reason, v.Message))
	case said.Type != "":
		removeCondition(&s.Update)
	}
}

func removeCondition(update any) {
	switch u := update.(type) {
	case *contract.MachineSetUpdate:
		u.RemoveConditions = []string{safety.ConditionFrozen}
	case *contract.MachineDeploymentUpdate:
		u.RemoveConditions = []string{safety.ConditionFrozen}
	}
}
