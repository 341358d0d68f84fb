package machine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
)

// flush writes what the pass has decided: metadata and spec first, then status on top of what the server returned. It
// writes nothing that is there already. The returned duration is when a status that was left to settle is due.
func (s *Scope) flush(ctx context.Context) (time.Duration, error) {
	before := s.env.memory.telling(s.State.Key)
	again, err := s.write(ctx)
	next, now := before.tells(s.told, err == nil && (again == 0 || s.written))
	s.env.memory.setTelling(s.State.Key, next)
	s.record(now)
	return again, err
}

func (s *Scope) write(ctx context.Context) (time.Duration, error) {
	main, status := split(s.update)
	writeStatus, again, err := s.settleStatus(status, main)
	if err != nil || (!urgent(main) && !s.urgent && !writeStatus) {
		return again, err
	}
	if writeStatus && !s.env.kind.StatusSubresource {
		return again, s.writeWhole(ctx)
	}
	current, err := s.writeMain(ctx, main)
	if err != nil {
		return again, err
	}
	if finalizers, set := main.Finalizers.Value(); set && len(finalizers) == 0 && !s.State.Deleting.IsZero() {
		s.env.memory.forget(s.State.Key)
		return 0, nil // the object is gone: there is no status to write
	}
	if !writeStatus {
		return again, nil
	}
	return again, s.writeStatus(ctx, current, status)
}

// split parts an update into what the main resource takes and what the status subresource takes. Only a layout knows on
// which side a member is, and state may live in annotations: so both take all, and whatever a write does not apply to is
// cut from its patch. Conditions are for the status alone.
func split(u contract.MachineUpdate) (main, status contract.MachineUpdate) {
	main, status = u, u
	main.Conditions, main.RemoveConditions = nil, nil
	status.MetadataUpdate = contract.MetadataUpdate{}
	status.ProviderID, status.DataSecretName = contract.Change[string]{}, contract.Change[string]{}
	return main, status
}

// urgent reports whether somebody else waits for what an update holds. A Node's UID alone rides along with the status.
func urgent(u contract.MachineUpdate) bool {
	return !u.Finalizers.Keeps() || !u.OwnerReferences.Keeps() || len(u.Labels) > 0 || len(u.Annotations) > 0 ||
		!u.ProviderID.Keeps() || !u.DataSecretName.Keeps() || !u.DrainedNode.Keeps() ||
		!u.VolumesDetachedNode.Keeps() || stageStarted(u)
}

// stageStarted reports whether a stage of deletion began: its limit counts from what is written.
func stageStarted(u contract.MachineUpdate) bool {
	return !u.PreDrainStarted.Keeps() || !u.DrainStarted.Keeps() || !u.VolumeDetachStarted.Keeps() || !u.PreTerminateStarted.Keeps()
}

// observes reports whether this pass has looked at the whole Machine: one that failed has not, and a paused Machine is left
// alone. Each condition still says which generation it was made of. Rule: Cluster API's Machine controller.
func (s *Scope) observes() bool { return !s.failed && !s.paused }

// observed is the observed generation to write.
func (s *Scope) observed() contract.Change[int64] {
	if !s.observes() {
		return contract.Change[int64]{}
	}
	return contract.SetTo(s.generation)
}

// generationOf is the generation that a status says it was made of. Where status has no endpoint of its own, generations
// count status writes too, and a status that named its own would have to be written again for ever: it names none.
func (r *Reconciler) generationOf(obj contract.Object) int64 {
	if !r.kind.StatusSubresource {
		return 0
	}
	return obj.GetGeneration()
}

// writeWhole writes everything in one patch, where status has no endpoint of its own.
func (s *Scope) writeWhole(ctx context.Context) error {
	u := s.update
	u.Conditions = changedConditions(s.stored, s.asserted, s.generation, s.Now)
	u.ObservedGeneration = s.observed()
	before, after, err := s.apply(s.Object, u)
	if err != nil {
		return err
	}
	patch, replacesList := contract.MergePatch(before, after)
	if patch == nil {
		return nil
	}
	if _, err := s.send(ctx, s.Object, patch, replacesList, false); err != nil {
		return err
	}
	s.record(slices.Concat(conditionEvents(s.stored, u.Conditions, !s.State.Deleting.IsZero()), matchEvents(u), s.drained(u)))
	return nil
}

func (s *Scope) writeMain(ctx context.Context, u contract.MachineUpdate) (contract.Object, error) {
	u.ObservedGeneration = s.observed() // for a layout that keeps it in an annotation
	before, after, err := s.apply(s.Object, u)
	if err != nil {
		return nil, err
	}
	patch, replacesList := contract.MergePatch(without(before, "status"), without(after, "status"))
	if patch == nil {
		return s.Object, nil
	}
	current, err := s.send(ctx, s.Object, patch, replacesList, false)
	if err == nil {
		s.record(s.drained(u))
		s.State.Generation, s.generation = current.GetGeneration(), s.env.generationOf(current)
	}
	return current, err
}

func (s *Scope) writeStatus(ctx context.Context, current contract.Object, u contract.MachineUpdate) error {
	u.Conditions = changedConditions(s.stored, s.asserted, s.generation, s.Now)
	u.ObservedGeneration = s.observed()
	before, after, err := s.apply(current, u)
	if err != nil {
		return err
	}
	patch, _ := contract.MergePatch(statusOf(before), statusOf(after))
	if patch == nil {
		return nil
	}
	tells := append(conditionEvents(s.stored, u.Conditions, !s.State.Deleting.IsZero()), matchEvents(u)...)
	if !s.written { // otherwise the write of the metadata has told
		tells = append(tells, s.drained(u)...)
	}
	if _, err := s.send(ctx, current, patch, true, true); err != nil {
		return err
	}
	s.record(tells)
	return nil
}

// apply writes an update into a copy and returns the content of the object before and after.
func (s *Scope) apply(obj contract.Object, u contract.MachineUpdate) (before, after map[string]any, err error) {
	changed, ok := obj.DeepCopyObject().(contract.Object)
	if !ok {
		return nil, nil, fmt.Errorf("copy of %T is no object", obj)
	}
	if err := s.env.kind.Adapter.Write(changed, u); err != nil {
		return nil, nil, err
	}
	if before, err = content(obj); err != nil {
		return nil, nil, err
	}
	after, err = content(changed)
	return before, after, err
}

func (s *Scope) send(ctx context.Context, on contract.Object, patch map[string]any, replacesList, status bool) (contract.Object, error) {
	metadata, _ := patch["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
		patch["metadata"] = metadata
	}
	metadata["uid"] = string(on.GetUID())
	if replacesList {
		metadata["resourceVersion"] = on.GetResourceVersion()
	}
	target := s.env.newObject()
	target.SetNamespace(on.GetNamespace())
	target.SetName(on.GetName())
	if err := s.env.patch(ctx, target, patch, status && s.env.kind.StatusSubresource); err != nil {
		return nil, fmt.Errorf("write %s %s: %w", s.env.kind.GVK.Kind, s.State.Key, err)
	}
	s.written = true
	return target, nil
}

// patch sends a merge patch and remembers the version that came back.
func (r *Reconciler) patch(ctx context.Context, target client.Object, body map[string]any, status bool) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	patch := client.RawPatch(types.MergePatchType, raw)
	start := r.options.Clock.Now()
	if status {
		err = r.ports.Client.Status().Patch(ctx, target, patch)
	} else {
		err = r.ports.Client.Patch(ctx, target, patch)
	}
	if err == nil {
		r.memory.took(r.options.Clock.Since(start))
		r.memory.wrote(target)
	}
	return err
}

// retryable reports whether an error only says that the pass was decided on an old read, which the next pass mends. A patch
// that names the UID of an object which was replaced is answered 422 and not 409, because patches have no preconditions.
func retryable(err error) bool {
	return apierrors.IsConflict(err) || slices.ContainsFunc(causes(err), func(c metav1.StatusCause) bool { return c.Field == "metadata.uid" })
}

func causes(err error) []metav1.StatusCause {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	return status.Status().Details.Causes
}

func content(obj contract.Object) (map[string]any, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u.Object, nil
	}
	converted, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, fmt.Errorf("convert %T: %w", obj, err)
	}
	return converted, nil
}

func without(obj map[string]any, key string) map[string]any {
	rest := make(map[string]any, len(obj))
	for k, v := range obj {
		if k != key {
			rest[k] = v
		}
	}
	return rest
}

func statusOf(obj map[string]any) map[string]any {
	if status, found := obj["status"]; found {
		return map[string]any{"status": status}
	}
	return map[string]any{}
}
