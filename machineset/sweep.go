package machineset

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/children"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// sweepLimit is how long the deletion of a set that leaves its Machines waits for the kinds of their parts to be watched.
const sweepLimit = 30 * time.Second

// recollection is what a process remembers of one set between passes. Losing it costs time and reads, never correctness.
type recollection struct {
	machines *children.Memory[contract.MachineState]
	// generation is the last one that was compared, since the one since which the set says the same, and says a digest of that.
	generation, since int64
	says              [sha256.Size]byte
	// swept: the objects that were created for Machines which do not exist have been deleted.
	swept bool
	// left are the parts of slots for which no Machine was made, which a cache may have yet to show.
	left map[int64]leftParts
}

// newRecollection is what is remembered of a set at first.
func newRecollection() *recollection {
	return &recollection{machines: children.NewMemory[contract.MachineState](), left: map[int64]leftParts{}}
}

// leftParts are the parts of one slot: objects of these kinds, under the name of its Machine.
type leftParts struct {
	name  string
	kinds []schema.GroupVersionKind
}

// remember keeps which parts of a slot exist, or may exist, without a Machine, those of earlier attempts too.
func (r *recollection) remember(c children.Creation, parts []schema.GroupVersionKind) {
	if c.Err == nil && !c.Burnt {
		delete(r.left, c.Entry.Slot)
		return
	}
	r.swept = r.swept && c.Err != nil // parts of a burnt slot may be left
	kinds := slices.Clone(r.left[c.Entry.Slot].kinds)
	for _, gvk := range parts {
		if !slices.Contains(kinds, gvk) {
			kinds = append(kinds, gvk)
		}
	}
	if len(kinds) > 0 {
		r.left[c.Entry.Slot] = leftParts{c.Entry.Name, kinds}
	}
}

// sweep deletes the objects that were created for Machines which do not exist: their slots were abandoned, or burnt. It runs once in the
// life of a process, and whenever slots were abandoned. Objects of a reserved slot and of a Machine stay, and all objects stay while the
// ledger cannot be read.
func (s *Scope) sweep(ctx context.Context, ledger scale.Ledger) error {
	mem := s.mem
	if _, known := s.State.Annotations[scale.LedgerAnnotation]; !known && s.State.Deleting.IsZero() {
		return nil // slots may be reserved in a ledger that was not read
	}
	if (mem.swept && s.decision.Abandon == 0) || (s.machines.IsHeld(ReasonLedgerUnreadable) && s.State.Deleting.IsZero()) {
		return nil
	}
	mem.swept = false // until all kinds are done: abandoned slots leave the ledger before
	complete := true
	var errs []error
	for _, template := range []contract.Ref{s.State.Template.Bootstrap, s.State.Template.Infrastructure} {
		kind, isTemplate := strings.CutSuffix(template.Kind, contract.TemplateSuffix)
		if !isTemplate || template.Group == "" || kind == "" {
			continue
		}
		swept, err := s.sweepKind(ctx, schema.GroupKind{Group: template.Group, Kind: kind}, ledger)
		errs = append(errs, err)
		complete = complete && swept && err == nil
	}
	mem.swept = complete
	return errors.Join(errs...)
}

// sweepKind returns false when the objects of the kind could not be read yet.
func (s *Scope) sweepKind(ctx context.Context, gk schema.GroupKind, ledger scale.Ledger) (bool, error) {
	if synced, err := s.env.frame.Tracker.Ensure(ctx, external.CRDMetadata(), s.State.Key); err != nil || !synced {
		s.Requeue(external.UnsyncedRetry)
		return false, err
	}
	resolved, err := s.env.frame.Tracker.Contract(ctx, gk)
	if _, mended := external.KindProblem(err); mended {
		return true, nil // without its kind there are no objects
	}
	if err != nil {
		return false, err
	}
	gvk := gk.WithVersion(resolved.APIVersion)
	probe := &unstructured.Unstructured{}
	probe.SetGroupVersionKind(gvk)
	synced, err := s.env.frame.Tracker.Ensure(ctx, probe, s.State.Key)
	if err != nil || !synced {
		s.Requeue(external.UnsyncedRetry)
		return false, err
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	err = s.env.frame.Ports.Cache.List(ctx, list, client.InNamespace(s.State.Key.Namespace),
		client.MatchingLabels{contract.SetNameLabel: contract.LabelValue(s.State.Key.Name)}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return false, fmt.Errorf("list %s objects: %w", gk, err)
	}
	var errs []error
	for i := range list.Items {
		if s.leftOver(&list.Items[i], ledger) {
			errs = append(errs, s.removePart(ctx, &list.Items[i]))
		}
	}
	return true, errors.Join(append(errs, s.sweepLeft(ctx, gvk, ledger))...)
}

// sweepLeft reads the parts that this process created recently from the API server: the list may be older.
func (s *Scope) sweepLeft(ctx context.Context, gvk schema.GroupVersionKind, ledger scale.Ledger) error {
	left := s.mem.left
	for _, slot := range slices.Sorted(maps.Keys(left)) {
		parts := left[slot]
		at := slices.Index(parts.kinds, gvk)
		if at < 0 || slices.ContainsFunc(ledger.Pending, func(e scale.Entry) bool { return e.Slot == slot }) {
			continue
		}
		have := &unstructured.Unstructured{}
		have.SetGroupVersionKind(gvk)
		err := s.env.frame.Ports.APIReader.Get(ctx, s.key(parts.name), have)
		if err == nil && s.leftOver(have, ledger) {
			err = s.removePart(ctx, have)
		}
		if err != nil && !external.SaysGone(err) {
			return fmt.Errorf("%s %s was made for no Machine: %w", gvk.Kind, s.key(parts.name), err)
		}
		if parts.kinds = slices.Delete(slices.Clone(parts.kinds), at, at+1); len(parts.kinds) == 0 {
			delete(left, slot)
		} else {
			left[slot] = parts
		}
	}
	return nil
}

// leftOver reports whether an object was made for a slot of this set that no Machine will ever have.
func (s *Scope) leftOver(part *unstructured.Unstructured, ledger scale.Ledger) bool {
	annotations := part.GetAnnotations()
	slot, err := strconv.ParseInt(annotations[scale.SlotAnnotation], 10, 64)
	switch {
	case err != nil, annotations[scale.SetUIDAnnotation] != string(s.State.UID), part.GetDeletionTimestamp() != nil:
		return false
	case slot >= ledger.Next: // the read of the set is older than this object
		return false
	case slices.ContainsFunc(ledger.Pending, func(e scale.Entry) bool { return e.Slot == slot }):
		return false
	case slices.ContainsFunc(part.GetOwnerReferences(), s.isMachine):
		return false
	}
	return !slices.ContainsFunc(s.machines.Own, func(m member) bool { return m.Key.Name == part.GetName() })
}

func (s *Scope) isMachine(ref metav1.OwnerReference) bool {
	gvk := s.env.kinds.Machine.GVK
	return ref.Kind == gvk.Kind && engine.Group(ref.APIVersion) == gvk.Group
}

// removePart deletes an object unless the API server has a Machine of its name, or the object has changed.
func (s *Scope) removePart(ctx context.Context, part *unstructured.Unstructured) error {
	gone, err := external.ConfirmAbsent(ctx, s.env.frame.Ports.APIReader, s.env.kinds.Machine.GVK, s.key(part.GetName()))
	if err != nil || !gone {
		return err
	}
	uid := part.GetUID()
	only := client.Preconditions{UID: &uid, ResourceVersion: new(part.GetResourceVersion())}
	if err := s.env.frame.Ports.Client.Delete(ctx, part.DeepCopy(), only); err != nil && !external.SaysGone(err) {
		return fmt.Errorf("delete %s %s: %w", part.GetKind(), s.key(part.GetName()), err)
	}
	return nil
}
