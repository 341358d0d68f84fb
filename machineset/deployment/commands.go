package deployment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/children"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/patch"
	"github.com/machinist-dev/machinist/machineset/rollout"
)

// ChangeCauseAnnotation of a deployment is why its template was changed. It is copied to its sets, for History. Rule: kubectl rollout.
const ChangeCauseAnnotation = "kubernetes.io/change-cause"

// Commands are a person's commands for rollouts, like kubectl rollout. They read from the API server and write on the version that they
// have read. After a conflict they read and decide again, a few times. Safe for concurrent use.
type Commands struct {
	// Client reads and writes. Required.
	Client client.Client
	Kinds  contract.Kinds
	// Clock is the time that Restart writes. Default: the real clock.
	Clock clock.PassiveClock
}

// errPaused is the error of a command that a paused rollout does not allow.
var errPaused = errors.New("the rollout is paused: resume it first")

// Revision is one entry of a deployment's history.
type Revision struct {
	Number  int64     `json:"revision"`
	Set     string    `json:"machineSet"`
	Created time.Time `json:"created"`
	// Replicas is the desired number of Machines of the set. Current: it has the deployment's template.
	Replicas int32  `json:"replicas"`
	Current  bool   `json:"current"`
	Cause    string `json:"changeCause,omitempty"`
}

// History returns the revisions of a deployment, the oldest first.
func (c Commands) History(ctx context.Context, key types.NamespacedName) ([]Revision, error) {
	_, _, sets, err := c.read(ctx, key)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(sets, func(a, b *set) int {
		return cmp.Or(cmp.Compare(a.revision(), b.revision()), cmp.Compare(a.Key.Name, b.Key.Name))
	})
	all := make([]Revision, 0, len(sets))
	for _, one := range sets {
		if one.revision() > 0 {
			all = append(all, one.entry())
		}
	}
	return all, nil
}

// entry returns the Revision of a set.
func (m *set) entry() Revision {
	return Revision{
		Number: m.revision(), Set: m.Key.Name, Created: m.Created, Replicas: m.State.Replicas.Or(0), Current: len(m.diff) == 0,
		Cause: m.Annotations[ChangeCauseAnnotation],
	}
}

// Pause pauses the rollouts of a deployment. A paused deployment is not changed.
func (c Commands) Pause(ctx context.Context, key types.NamespacedName) error {
	return c.pause(ctx, key, true)
}

// Resume continues the rollouts of a deployment.
func (c Commands) Resume(ctx context.Context, key types.NamespacedName) error {
	return c.pause(ctx, key, false)
}

func (c Commands) pause(ctx context.Context, key types.NamespacedName, paused bool) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		obj, state, err := c.deployment(ctx, key)
		if err != nil || state.RolloutPaused == paused {
			return err
		}
		return c.write(ctx, obj, contract.MachineDeploymentUpdate{RolloutPaused: contract.SetTo(paused)})
	})
}

// Restart replaces all Machines that exist now, without a change of the template. It fails for a paused deployment, and for a kind without
// a field for MachineDeploymentState.RolloutAfter; there, change an annotation of the template. Rule: clusterctl alpha rollout restart,
// which writes spec.rollout.after.
func (c Commands) Restart(ctx context.Context, key types.NamespacedName) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		obj, state, err := c.deployment(ctx, key)
		now := c.clock().Now().Truncate(time.Second).UTC()
		switch {
		case err != nil:
			return err
		case state.RolloutPaused:
			return fmt.Errorf("restart %s: %w", key, errPaused)
		case state.RolloutAfter.After(now):
			return fmt.Errorf("restart %s: a rollout is planned for %s already", key, state.RolloutAfter.Format(time.RFC3339))
		}
		written, err := engine.Write(ctx, patch.NewWriter(c.Client, c.clock()), c.Kinds.Deployment, obj,
			contract.MachineDeploymentUpdate{RolloutAfter: contract.SetTo(now)})
		if err != nil {
			return err
		}
		var kept contract.MachineDeploymentState
		if err = c.Kinds.Deployment.Adapter.Read(written, &kept); err == nil && !kept.RolloutAfter.Equal(now) {
			err = fmt.Errorf("restart %s: kind %s has no field for it: set the annotation kubectl.kubernetes.io/restartedAt in the metadata of "+
				"spec.template to the present time", key, c.Kinds.Deployment.GVK.Kind)
		}
		return err
	})
}

// Undo sets the template of a deployment to that of an earlier revision, 0 for the one before its present template, and returns that
// revision. No MachineSet need have the present template yet. The error matches ErrRevision if there is no earlier revision; Undo also
// fails for a paused deployment.
func (c Commands) Undo(ctx context.Context, key types.NamespacedName, revision int64) (done Revision, err error) {
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		done, err = c.undo(ctx, key, revision)
		return err
	})
	return done, err
}

func (c Commands) undo(ctx context.Context, key types.NamespacedName, revision int64) (Revision, error) {
	obj, state, sets, err := c.read(ctx, key)
	if err != nil {
		return Revision{}, err
	}
	if state.RolloutPaused {
		return Revision{}, fmt.Errorf("undo %s: %w", key, errPaused)
	}
	target, err := revisionOf(sets, revision)
	if err != nil {
		return Revision{}, fmt.Errorf("undo %s: %w", key, err)
	}
	return target.entry(), copyTemplate(ctx, patch.NewWriter(c.Client, c.clock()), c.Kinds, obj, target.Object)
}

// Progress is the progress of a rollout.
type Progress struct {
	// Done: all Machines have the deployment's template and are available, and there are no others. Failed: the progress deadline is exceeded.
	Done   bool `json:"done"`
	Failed bool `json:"failed"`
	// Message describes the progress in one sentence. Blocking has the messages of the conditions about what the rollout waits for.
	Message  string   `json:"message"`
	Blocking []string `json:"blocking,omitempty"`

	Desired   int32 `json:"desired"`
	Replicas  int32 `json:"replicas"`
	Updated   int32 `json:"updated"`
	Available int32 `json:"available"`
}

// Status returns the progress of a deployment's rollout, from its status and its MachineSets: neither alone proves that it is done. Rule:
// kubectl rollout status.
func (c Commands) Status(ctx context.Context, key types.NamespacedName) (Progress, error) {
	_, state, sets, err := c.read(ctx, key)
	if err != nil {
		return Progress{}, err
	}
	return c.progress(state, sets), nil
}

// counts corrects the numbers of the status by the sets, and reports whether one has the deployment's template. The status may be older
// than a change: a changed annotation increments no generation that a controller could report as observed. Without sets, the status counts.
func (c Commands) counts(d *contract.MachineDeploymentState, sets []*set) (p Progress, begun bool) {
	p = Progress{
		Desired: d.Replicas.Or(0), Replicas: d.ObservedReplicas.Or(0), Updated: d.UpdatedReplicas.Or(d.UpToDateReplicas.Or(0)),
		Available: d.AvailableReplicas.Or(d.NodeAvailableReplicas.Or(0)),
	}
	facts := rollout.Facts{After: d.RolloutAfter, Now: c.clock().Now()}
	for _, one := range sets {
		facts.Sets = append(facts.Sets, one.facts(nil))
	}
	current := rollout.Plan(facts).Current.UID
	if begun = current != "" || len(sets) == 0; !begun {
		p.Updated = 0
	}
	old := int32(0)
	for _, one := range sets {
		if one.UID == current {
			n := one.State.Replicas.Or(0)
			p.Updated = min(d.UpdatedReplicas.Or(d.UpToDateReplicas.Or(n)), n)
		} else {
			old += max(one.State.Replicas.Or(0), one.State.ObservedReplicas.Or(0))
		}
	}
	p.Replicas = max(p.Replicas, p.Updated+old)
	return p, begun
}

func (c Commands) progress(d *contract.MachineDeploymentState, sets []*set) Progress {
	p, begun := c.counts(d, sets)
	for _, kind := range []string{ConditionRollingOut, contract.ConditionScalingUp} {
		if c, _ := engine.Find(d.Conditions, kind); c.Status == metav1.ConditionTrue && c.Reason != contract.ReasonScalingUp {
			p.Blocking = append(p.Blocking, c.Message)
		}
	}
	rolls := engine.HasStatus(d.Conditions, ConditionRollingOut, metav1.ConditionTrue)
	deadline, _ := engine.Find(d.Conditions, ConditionProgressing)
	name := d.Key.Name
	switch {
	case d.ObservedGeneration > 0 && d.ObservedGeneration < d.Generation:
		p.Message = fmt.Sprintf("Waiting for the spec of %q to be observed", name)
	case deadline.Reason == deadlineExceeded:
		p.Failed, p.Message = true, fmt.Sprintf("%q exceeded its progress deadline", name)
	case d.RolloutPaused && (rolls || !begun):
		p.Message = fmt.Sprintf("The rollout of %q is paused", name)
	case rolls || !begun || p.Updated < p.Desired || p.Replicas > p.Updated || p.Available < p.Updated:
		p.Message = fmt.Sprintf("Waiting for %q to finish: %d of %d new Machines have been created, %d Machines are available, %d are old",
			name, p.Updated, p.Desired, p.Available, max(p.Replicas-p.Updated, 0))
	default:
		p.Done, p.Message = true, fmt.Sprintf("%q has been rolled out", name)
	}
	return p
}

func (c Commands) clock() clock.PassiveClock {
	return cmp.Or[clock.PassiveClock](c.Clock, clock.RealClock{})
}

func (c Commands) deployment(ctx context.Context, key types.NamespacedName) (contract.Object, *contract.MachineDeploymentState, error) {
	if err := engine.CheckKind("Kinds.Deployment", c.Kinds.Deployment); err != nil {
		return nil, nil, err
	}
	obj, state := engine.NewObject(c.Kinds.Deployment), &contract.MachineDeploymentState{}
	if err := c.Client.Get(ctx, key, obj); err != nil {
		return nil, nil, fmt.Errorf("read %s %s: %w", c.Kinds.Deployment.GVK.Kind, key, err)
	}
	return obj, state, c.Kinds.Deployment.Adapter.Read(obj, state)
}

// read returns a deployment with its sets.
func (c Commands) read(ctx context.Context, key types.NamespacedName) (
	obj contract.Object, state *contract.MachineDeploymentState, sets []*set, err error,
) {
	if obj, state, err = c.deployment(ctx, key); err != nil {
		return nil, nil, nil, err
	}
	if err := engine.CheckKind("Kinds.Set", c.Kinds.Set); err != nil || c.Kinds.SetMaker == nil {
		return nil, nil, nil, cmp.Or(err, errors.New("Kinds.SetMaker is not set"))
	}
	list := engine.NewList(c.Kinds.Set)
	if err := c.Client.List(ctx, list, client.InNamespace(key.Namespace)); err != nil {
		return nil, nil, nil, fmt.Errorf("list %s objects: %w", c.Kinds.Set.GVK.Kind, err)
	}
	var failed []error
	err = engine.EachObject(list, func(o client.Object) {
		if owner := metav1.GetControllerOfNoCopy(o); owner == nil || owner.UID != state.UID {
			return
		}
		one := &set{Child: children.Child[contract.MachineSetState]{Object: o, State: &contract.MachineSetState{}}}
		one.Metadata = &one.State.Metadata
		failed = append(failed, c.Kinds.Set.Adapter.Read(o, one.State))
		diff, err := c.Kinds.SetMaker.TemplateDiff(obj, o)
		one.diff, failed, sets = diff, append(failed, err), append(sets, one)
	})
	return obj, state, sets, errors.Join(append(failed, err)...)
}

func (c Commands) write(ctx context.Context, obj contract.Object, u contract.MachineDeploymentUpdate) error {
	_, err := engine.Write(ctx, patch.NewWriter(c.Client, c.clock()), c.Kinds.Deployment, obj, u)
	return err
}
