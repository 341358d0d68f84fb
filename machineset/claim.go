package machineset

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/contract/patch"
)

// claim is what a set does about a Machine of its namespace.
type claim uint8

const (
	// claimNone: another controller owns it, or it does not match.
	claimNone claim = iota
	// claimOwn: the set controls it.
	claimOwn
	// claimAdopt: it has the labels, and no controller.
	claimAdopt
	// claimRestore: it has the labels, and is controlled by a set of the same name that no longer exists: both were restored from a
	// backup.
	claimRestore
	// claimRelease: the set controls it, and its labels were changed so that the set releases it.
	claimRelease
)

// String returns the name of the constant.
func (c claim) String() string {
	names := [...]string{"None", "Own", "Adopt", "Restore", "Release"}
	if int(c) < len(names) {
		return names[c]
	}
	return fmt.Sprintf("claim(%d)", uint8(c))
}

// claimFacts are what a claim depends on.
type claimFacts struct {
	Set      *contract.MachineSetState
	GVK      schema.GroupVersionKind
	Selector labels.Selector
	Machine  *contract.MachineState
}

// decideClaim: a set adopts a Machine that has the labels and no controller, unless either is being deleted, and releases a Machine whose
// labels were changed. A Machine that does not match because the set's own selector has changed is not released: the set gives it the new
// labels. Rule: the ReplicaSet controller's claims.
func decideClaim(f claimFacts) claim {
	owner := controllerOf(f.Machine.OwnerReferences)
	matches := f.Selector.Matches(labels.Set(f.Machine.Labels)) && f.Machine.ClusterName == f.Set.ClusterName
	goes := !f.Set.Deleting.IsZero() || !f.Machine.Deleting.IsZero()
	switch {
	case owner != nil && owner.UID == f.Set.UID:
		gave, known := givenLabels(f.Machine)
		if !goes && !matches && known && f.Selector.Matches(labels.Set(gave)) {
			return claimRelease
		}
		return claimOwn
	case !matches || goes:
		return claimNone
	case owner == nil:
		return claimAdopt
	case owner.Name == f.Set.Key.Name && owner.Kind == f.GVK.Kind && pass.Group(owner.APIVersion) == f.GVK.Group:
		return claimRestore // the set of this name is this one, so the other one is gone
	}
	return claimNone
}

func controllerOf(owners []metav1.OwnerReference) *metav1.OwnerReference {
	for i := range owners {
		if owners[i].Controller != nil && *owners[i].Controller {
			return &owners[i]
		}
	}
	return nil
}

// owned returns owner references with the set as the controller: in place of the given dead one, if any.
func owned(have []metav1.OwnerReference, set metav1.OwnerReference) []metav1.OwnerReference {
	return contract.WithOwner(slices.DeleteFunc(slices.Clone(have), func(ref metav1.OwnerReference) bool {
		return ref.Controller != nil && *ref.Controller && !contract.IsOwner(ref, set)
	}), set)
}

// released returns owner references without the set.
func released(have []metav1.OwnerReference, set metav1.OwnerReference) []metav1.OwnerReference {
	want := make([]metav1.OwnerReference, 0, len(have))
	for _, ref := range have {
		if ref.UID != set.UID {
			want = append(want, ref)
		}
	}
	return want
}

// selectorOf returns which Machines are a set's own. A set without a selector means those that carry its name, and all must be of
// its cluster. Rule: the defaults of Cluster API's MachineSet webhook and controller.
func selectorOf(set *contract.MachineSetState) (labels.Selector, error) {
	effective := &metav1.LabelSelector{}
	if set.Selector != nil {
		effective = set.Selector.DeepCopy()
	}
	if effective.MatchLabels == nil {
		effective.MatchLabels = map[string]string{}
	}
	if len(effective.MatchLabels) == 0 && len(effective.MatchExpressions) == 0 {
		effective.MatchLabels[contract.SetNameLabel] = contract.LabelValue(set.Key.Name)
	}
	if set.ClusterName != "" {
		effective.MatchLabels[contract.ClusterNameLabel] = set.ClusterName
	}
	selector, err := metav1.LabelSelectorAsSelector(effective)
	if err != nil {
		return nil, fmt.Errorf("spec.selector: %w", err)
	}
	return selector, nil
}

// machineLabels are the labels that the Machines of a set get. Rule: Cluster API's machineLabelsFromMachineSet.
func machineLabels(set *contract.MachineSetState) map[string]string {
	all := maps.Clone(set.Template.Labels)
	if all == nil {
		all = map[string]string{}
	}
	all[contract.SetNameLabel] = contract.LabelValue(set.Key.Name)
	if name, found := set.Labels[contract.DeploymentNameLabel]; found {
		all[contract.DeploymentNameLabel] = name
	}
	if set.ClusterName != "" {
		all[contract.ClusterNameLabel] = set.ClusterName
	}
	return all
}

// claim adopts and releases, and returns the Machines that the set controls then. One that could not be adopted or released does not
// delay the others; nothing is created meanwhile, because it may count later.
func (s *Scope) claim(ctx context.Context) ([]*member, error) {
	var own []*member
	mem := s.mem
	for _, m := range failedLast(s.candidates, func(m *member) bool { return mem.refused[m.state.UID] }) {
		c := decideClaim(claimFacts{Set: &s.State, GVK: s.env.kinds.Set.GVK, Selector: s.selector, Machine: m.state})
		if c == claimOwn {
			own = append(own, m)
		}
		if c == claimNone || c == claimOwn {
			continue
		}
		if s.env.frame.Writer.Behind(m.obj) {
			s.Requeue(pass.BehindRetry)
			return nil, fmt.Errorf("%w: %s %s was changed a moment ago", pass.ErrStale, s.env.kinds.Machine.GVK.Kind, m.state.Key)
		}
		taken, err := m, error(nil)
		if len(s.trouble.claim) < maxFailed {
			taken, err = s.take(ctx, m, c)
			mem.attempted(m.state.UID, err)
		} else if c != claimRelease {
			taken = nil
		}
		switch {
		case err != nil && pass.IsStale(err):
			return nil, err
		case err != nil:
			s.trouble.claim = append(s.trouble.claim, err)
			s.Hold(ReasonClaimFailed, err.Error())
			if c == claimRelease {
				own = append(own, m)
			}
		case taken != nil:
			own = append(own, taken)
		}
	}
	slices.SortFunc(s.trouble.claim, byText)
	return own, nil
}

// take makes the set the controller of a Machine, or releases it. It returns the Machine when the set controls it afterwards.
func (s *Scope) take(ctx context.Context, m *member, c claim) (*member, error) {
	owners := released(m.state.OwnerReferences, s.OwnerReference())
	if c != claimRelease {
		live, err := s.liveSet(ctx) // a set that was deleted and created again must not adopt what its caches show
		if err != nil {
			return nil, err
		}
		if live.GetDeletionTimestamp() != nil {
			return nil, fmt.Errorf("%w: %s %s is being deleted", pass.ErrStale, s.env.kinds.Set.GVK.Kind, s.State.Key)
		}
		owners = owned(m.state.OwnerReferences, s.OwnerReference())
	}
	var u contract.MachineUpdate
	u.OwnerReferences = contract.SetTo(owners)
	written, err := s.writeMachine(ctx, m.obj, u)
	switch {
	case external.SaysGone(err):
		return nil, nil
	case err != nil && c == claimRelease:
		return nil, fmt.Errorf("release: %w", err)
	case err != nil:
		if !patch.Retryable(err) {
			s.Eventf(corev1.EventTypeWarning, eventFailedAdopt, actionAdopt, "Failed to adopt Machine %q: %v", m.state.Key.Name, err)
		}
		return nil, fmt.Errorf("adopt: %w", err)
	case c == claimRelease:
		s.Eventf(corev1.EventTypeNormal, eventRelease, actionRelease, "Released Machine %q, whose labels were changed", m.state.Key.Name)
		return nil, nil
	}
	s.Eventf(corev1.EventTypeNormal, eventAdopt, actionAdopt, "Adopted Machine %q", m.state.Key.Name)
	return s.read(written)
}

// writeMachine writes an update to a Machine, and returns the answer. It writes nothing that is stored already.
func (s *Scope) writeMachine(ctx context.Context, obj contract.Object, u contract.MachineUpdate) (contract.Object, error) {
	contents, err := patch.Apply(s.env.kinds.Machine, obj, u)
	if err != nil {
		return nil, err
	}
	document := contents.Main()
	if document.Empty() {
		return obj, nil
	}
	written := pass.NewObject(s.env.kinds.Machine)
	if err := s.env.frame.Writer.Send(ctx, obj, written, document, false, false); err != nil {
		return nil, fmt.Errorf("write %s %s/%s: %w", s.env.kinds.Machine.GVK.Kind, obj.GetNamespace(), obj.GetName(), err)
	}
	return written, nil
}
