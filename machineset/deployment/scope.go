package deployment

import (
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/children"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/machineset/rollout"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// Scope is one pass over one deployment: the facts that were read, the decisions so far, and the functions to write them. Only the worker
// that runs the pass uses it.
type Scope struct {
	engine.Scope[contract.MachineDeploymentState, contract.MachineDeploymentUpdate]

	env *Reconciler
	mem *recollection

	// children are the MachineSets as read by package children; observed are the same MachineSets with their Machines.
	children children.Scope[contract.MachineDeploymentState, contract.MachineDeploymentUpdate,
		contract.MachineSetState, contract.MachineSetUpdate]
	observed []*set
	// templates are missing templates; missing are the reasons that prevent the deployment from creating a set.
	templates []scale.Hold
	missing   []string

	facts   rollout.Facts // what plan was decided by
	plan    rollout.Decision
	planned bool
	// listed: the Machines were listed from the API server in this pass. current: the cache has them in the same state.
	listed, current bool
}

// recollection is the memory of a process about one deployment between passes. Losing it costs time and reads, never correctness.
type recollection struct {
	sets *children.Memory
	// confirmed: the API server has confirmed once that the cache has the sets in their present state, see Scope.confirmed.
	confirmed bool
	lag       children.Lag // of the cache of Machines
}

// set is a MachineSet of the deployment with its Machines.
type set struct {
	children.Child[contract.MachineSetState]

	machines []machine
	// reserved is how many Machines it is creating that are not in machines; replaced are the names of those that it replaces.
	reserved int
	replaced []string
	// diff are the fields in which its template, or its selector, differs from the deployment's; empty for the deployment's template.
	diff []string
}

// machine is a Machine of a set.
type machine = children.Child[contract.MachineState]

// Hold prevents the deployment from creating sets and from changing their replicas in this pass; the condition RollingOut reports the
// message. Call it from a step before StepSync, in each pass while the reason lasts. If no event follows its end, the step must request
// another pass.
func (s *Scope) Hold(reason, message string) { s.children.Hold(reason, message) }

// setsStep reads the sets and their Machines. It ends the pass when they could not be read, or when the cache is behind, so that nothing is
// decided.
func setsStep(ctx context.Context, s *Scope) (engine.Result, error) {
	err := s.env.machines.Synced(ctx)
	if err == nil {
		err = s.children.Observe(ctx)
	}
	if err == nil && !s.children.Waiting {
		s.children.CheckSelector(setLabels(&s.State))
		err = s.readSets(ctx)
	}
	if err != nil || s.children.Waiting {
		s.children.Known = false
		return engine.Result{Stop: true}, err
	}
	if err := s.nameReplicas(ctx); err != nil {
		return engine.Result{Stop: true}, err
	}
	return engine.Result{}, errors.Join(s.children.Unclaimed...)
}

func (s *Scope) hasSelector() bool { return !s.children.IsHeld(children.ReasonSelectorUnreadable) }

// nameReplicas sets the number of replicas of a deployment without one to that of its sets, which includes the surge during a rollout. A
// deployment whose sets were lost waits for a person.
func (s *Scope) nameReplicas(ctx context.Context) error {
	there := s.State.ObservedReplicas.Or(0)
	if len(s.observed) > 0 {
		there = 0
	}
	for _, one := range s.observed {
		there += max(one.State.Replicas.Or(0), 0)
	}
	isEmpty := there == 0 && len(s.observed) == 0
	_, made := s.State.Annotations[scale.LedgerAnnotation]
	if isEmpty && made {
		return nil
	}
	return s.NameReplicas(ctx, &s.State.ReplicatedState, &s.Update.ReplicatedUpdate, there, isEmpty)
}

// readSets reads the Machines of the sets, and compares the sets' templates with the deployment's.
func (s *Scope) readSets(ctx context.Context) error {
	for _, child := range s.children.Own {
		one := &set{Child: child}
		var err error
		if one.machines, err = s.env.machines.List(ctx, s.State.Key.Namespace, setKey(one.UID), s.Deleting(), nil); err != nil {
			return fmt.Errorf("read the Machines of %s %s: %w", s.env.kinds.Set.GVK.Kind, one.Key, err)
		}
		if !s.Deleting() {
			if one.diff, err = s.env.kinds.SetMaker.TemplateDiff(s.Object, child.Object); err != nil {
				return err
			}
			if s.hasSelector() && !one.selects(&s.State) {
				one.diff = append(one.diff, "selector")
			}
		}
		one.count()
		s.observed = append(s.observed, one)
	}
	return nil
}

// setBy returns an observed set. Every UID of a plan is one of them.
func (s *Scope) setBy(uid types.UID) *set {
	return s.observed[slices.IndexFunc(s.observed, func(one *set) bool { return one.UID == uid })]
}

// count reads from the creation ledger of the set how many Machines are reserved, and which are replaced. For a set without a ledger, of
// another program, it uses the status.
func (m *set) count() {
	ledger, err := scale.ParseLedger(m.Annotations[scale.LedgerAnnotation])
	if err != nil || !ledger.IsOf(m.UID) {
		m.reserved, m.replaced = max(int(m.State.ObservedReplicas.Or(0))-len(m.machines), 0), nil
		return
	}
	there := map[string]bool{}
	for _, one := range m.machines {
		there[one.State.Key.Name] = true
	}
	m.reserved, m.replaced = len(ledger.Settle(there).Pending), ledger.Replaced.Names
}

// templatesStep reads the templates that a new set references. A template that does not exist, or was not read, only prevents the
// deployment from creating a set.
func templatesStep(ctx context.Context, s *Scope) (engine.Result, error) {
	errs := make([]error, 0, 2)
	for _, ref := range []contract.Ref{s.State.Template.Bootstrap, s.State.Template.Infrastructure} {
		found, problem, err := s.ReadTemplate(ctx, ref)
		if problem != (external.Problem{}) {
			s.missing = append(s.missing, problem.Message)
		}
		if found.Presence == external.Absent {
			s.templates = append(s.templates, scale.Hold{Reason: problem.Reason, Message: problem.Message})
		}
		errs = append(errs, err)
	}
	return engine.Result{}, errors.Join(errs...)
}

// setKey is the index key of the Machines of a set.
func setKey(uid types.UID) string { return "set:" + string(uid) }

// setOf returns the reference to the set that controls a Machine, or nil.
func (r *Reconciler) setOf(machine metav1.Object) *metav1.OwnerReference {
	owner := metav1.GetControllerOfNoCopy(machine)
	if owner == nil || owner.Kind != r.kinds.Set.GVK.Kind || engine.Group(owner.APIVersion) != r.kinds.Set.GVK.Group {
		return nil
	}
	return owner
}
