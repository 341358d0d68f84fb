package deployment

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/children"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/patch"
	"github.com/machinist-dev/machinist/machineset/rollout"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// selectorOf returns the selector of a deployment's sets, all of its cluster. A deployment without a selector selects the sets with its
// name label.
func selectorOf(d *contract.MachineDeploymentState) (labels.Selector, error) {
	return children.Selector(d.Selector, contract.CommonOf(d), contract.DeploymentNameLabel)
}

// setLabels returns the labels of a deployment's sets: those of its template, and those that identify the deployment.
func setLabels(d *contract.MachineDeploymentState) map[string]string {
	all := map[string]string{}
	maps.Copy(all, d.Template.Labels)
	all[contract.DeploymentNameLabel] = contract.LabelValue(d.Key.Name)
	if d.ClusterName != "" {
		all[contract.ClusterNameLabel] = d.ClusterName
	}
	return all
}

// setAnnotations returns the annotations of the deployment that are copied to its sets: all but those for the deployment only. Rule:
// Cluster API's MachineDeployment controller.
func setAnnotations(d *contract.MachineDeploymentState) map[string]string {
	all := map[string]string{}
	for key, value := range d.Annotations {
		domain, _, _ := strings.Cut(key, "/")
		own := domain == "machinist.dev" || key == contract.RevisionAnnotation || key == contract.RevisionHistoryAnnotation ||
			key == "cluster.x-k8s.io/conversion-data" || key == "kubectl.kubernetes.io/last-applied-configuration" ||
			key == contract.PausedAnnotation || key == scale.GardenerUnfreezeAnnotation
		if !own {
			all[key] = value
		}
	}
	return all
}

// given returns the record of the values that a deployment gives its sets, with its lists sorted.
func given(d *contract.MachineDeploymentState, fields []string) children.Given {
	return children.Given{
		Labels: setLabels(d), Annotations: slices.Sorted(maps.Keys(setAnnotations(d))), Fields: slices.Sorted(slices.Values(fields)),
	}
}

// syncStep copies values that change without a rollout from the deployment to its sets: labels and annotations, the fields that the Maker
// changes in place, and the revision of the current set. A set in deletion is not changed. The rollout waits while a set could not be
// written: an earlier change of its replicas whose answer was lost may have taken effect, or may still do so. After the write it is seen or
// rejected.
func syncStep(ctx context.Context, s *Scope) (engine.Result, error) {
	s.decide()
	var result engine.Result
	var errs []error
	for _, one := range s.observed {
		if !one.Deleting.IsZero() || s.env.frame.Writer.Behind(one.Object) || one.State.ClusterName != s.State.ClusterName {
			continue
		}
		err := s.syncSet(ctx, one)
		if errs = append(errs, err); err != nil && !lasts(err) {
			result.Stop = true
		}
	}
	return result, errors.Join(errs...)
}

// lasts reports whether an error is a rejection that another attempt does not change, as by an admission webhook. It must not end a
// rollout.
func lasts(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) && !patch.Retryable(err) || apierrors.IsBadRequest(err) ||
		apierrors.IsRequestEntityTooLargeError(err)
}

// keepsFromCreating reports whether a set may not create Machines: an outdated set would create Machines again that users delete. While the
// rollout does not continue, it may replace lost Machines, unless they have moved.
func (s *Scope) keepsFromCreating(one *set) bool {
	stalled := s.State.RolloutPaused || s.plan.Stalled && !s.facts.Paused
	return one.UID != s.plan.Current.UID && s.facts.Strategy.Type != rollout.RollingUpdate && !stalled || s.inPlace() && one.lacks()
}

func (s *Scope) syncSet(ctx context.Context, one *set) error {
	annotations := setAnnotations(&s.State)
	if one.UID == s.plan.Current.UID {
		annotations[contract.RevisionAnnotation] = strconv.FormatInt(s.plan.Revision, 10)
	} else { // each revision has its own
		delete(annotations, ChangeCauseAnnotation)
		if cause, found := one.Annotations[ChangeCauseAnnotation]; found {
			annotations[ChangeCauseAnnotation] = cause
		}
	}
	keeps := s.keepsFromCreating(one)
	disabled := one.Annotations[scale.DisableCreateAnnotation] == "true"
	if !keeps && s.inPlace() && disabled { // a Machine may have moved away, which is not shown yet
		if current, err := s.confirmMachines(ctx); err != nil || !current {
			return cmp.Or(err, engine.ErrStale)
		}
	}
	if keeps || disabled {
		annotations[scale.DisableCreateAnnotation] = strconv.FormatBool(keeps)
	}
	annotations[scale.LimitsAnnotation] = s.limits(one.UID).String()
	before := children.ReadGiven(one.Metadata)
	u := contract.MachineSetUpdate{MetadataUpdate: before.Changes(one.Metadata, setLabels(&s.State), annotations)}
	kind := children.Also(s.env.kinds.Set, func(obj contract.Object, u *contract.MachineSetUpdate) error {
		fields, err := s.env.kinds.SetMaker.SyncSet(s.Object, obj, before.Fields)
		if err != nil {
			return err
		}
		given(&s.State, fields).Record(one.Metadata, &u.MetadataUpdate)
		return nil
	})
	return send(ctx, s, kind, one.Object, u)
}

// hashLabel is the label by which a set selects only its own Machines: the end of its name, and the digest of its source. A deployment that
// has lost its ledger may use a name again, and the new set must not adopt Machines that an earlier set of another template has orphaned,
// because they would count as up to date.
func hashLabel(name, from string) string {
	return contract.LabelValue(strings.Trim(name[strings.LastIndex(name, "-")+1:]+"-"+from, "-"))
}

// newSet returns the set to create for a slot.
func (s *Scope) newSet(e scale.Entry) (client.Object, error) {
	from := s.fingerprint()
	own := map[string]string{contract.TemplateHashLabel: hashLabel(e.Name, from)}
	seed := contract.MachineSetSeed{
		Seed: contract.Seed{
			Key: client.ObjectKey{Namespace: s.State.Key.Namespace, Name: e.Name}, Owners: []metav1.OwnerReference{s.OwnerReference()},
			Labels: setLabels(&s.State), Annotations: setAnnotations(&s.State),
		},
		Replicas: int32(s.plan.Create.Or(0)), TemplateLabels: own, SelectorLabels: own,
	}
	maps.Copy(seed.Labels, own)
	maps.Copy(seed.Annotations, scale.Stamp{Set: s.State.UID, Slot: e.Slot, From: from, After: s.plan.MadeFor}.Annotations())
	seed.Annotations[contract.RevisionAnnotation] = strconv.FormatInt(s.plan.Revision, 10)
	seed.Annotations[scale.LimitsAnnotation] = s.limits(s.plan.Current.UID).String()
	made, err := s.env.kinds.SetMaker.NewSet(s.Object, seed)
	if err != nil {
		return nil, err
	}
	fields, err := s.env.kinds.SetMaker.SyncSet(s.Object, made, nil)
	if err != nil {
		return nil, err
	}
	return given(&s.State, fields).Of(made), nil
}
