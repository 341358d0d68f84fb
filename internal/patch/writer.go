package patch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
)

// Document is a merge patch for one object. It is empty when there is nothing to change.
type Document map[string]any

// Apply writes an update into a copy of obj, and returns the difference as a patch for everything. It does not change obj. The error is
// that of the kind's adapter.
func Apply[S, U any](kind contract.KindOf[S, U], obj contract.Object, update U) (Document, error) {
	changed, ok := obj.DeepCopyObject().(contract.Object)
	if !ok {
		return nil, fmt.Errorf("copy of %T is not an object", obj)
	}
	if err := kind.Adapter.Write(changed, update); err != nil {
		return nil, err
	}
	before, err := contentOf(obj)
	if err != nil {
		return nil, err
	}
	after, err := contentOf(changed)
	if err != nil {
		return nil, err
	}
	return contract.MergePatch(before, after), nil
}

func contentOf(obj contract.Object) (map[string]any, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u.Object, nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, fmt.Errorf("convert %T: %w", obj, err)
	}
	return content, nil
}

// Main returns the part of the patch for everything but the status.
func (d Document) Main() Document {
	rest := maps.Clone(d)
	delete(rest, "status")
	return rest
}

// Status returns the part of the patch for the status.
func (d Document) Status() Document {
	if status, found := d["status"]; found {
		return Document{"status": status}
	}
	return nil
}

// Writer sends patches at a limited rate, and remembers them until the cache shows them. Safe for concurrent use.
type Writer struct {
	client client.Client
	clock  clock.PassiveClock

	mu      sync.Mutex
	written map[types.UID]mark
	sent    map[subject]repeats
	swept   time.Time
}

// NewWriter returns a Writer for a client. It makes no request. A nil clock means the real clock.
func NewWriter(c client.Client, passive clock.PassiveClock) *Writer {
	if passive == nil {
		passive = clock.RealClock{}
	}
	return &Writer{client: c, clock: passive, written: map[types.UID]mark{}, sent: map[subject]repeats{}, swept: passive.Now()}
}

// Send sends a document for the object on, to its status endpoint or to the object itself. The patch contains the UID and the resource
// version of on: the write fails if the object has changed, because its content was decided on that version. Send fills into, an empty
// object of the same kind, with the answer of the server. It changes neither on nor the document. See Retryable for errors that the next
// pass resolves. The error of a patch that others have undone too often is an UndoneError.
func (w *Writer) Send(ctx context.Context, on metav1.Object, into client.Object, d Document, status bool) error {
	body, metadata := Document{}, map[string]any{}
	maps.Copy(body, d)
	if have, ok := d["metadata"].(map[string]any); ok {
		maps.Copy(metadata, have)
	}
	metadata["uid"], metadata["resourceVersion"] = string(on.GetUID()), on.GetResourceVersion()
	body["metadata"] = metadata
	into.SetNamespace(on.GetNamespace())
	into.SetName(on.GetName())
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return w.send(ctx, w.client, into, client.RawPatch(types.MergePatchType, raw), status)
}

// PatchThrough sends a patch of any type, which must contain the UID of the target object, through another client, such as that of a Node's
// cluster. Its errors are those of Send.
func (w *Writer) PatchThrough(ctx context.Context, c client.Writer, target client.Object, patch client.Patch) error {
	return w.send(ctx, c, target, patch, false)
}

func (w *Writer) send(ctx context.Context, c client.Writer, target client.Object, patch client.Patch, status bool) error {
	content, err := contentOfPatch(patch)
	if err != nil {
		return err
	}
	key, known := w.known(content, status)
	if after := known.pause(w.clock.Now()); after > 0 {
		return &UndoneError{Object: nameOf(target), Fields: content.fields(), By: known.by, After: after}
	}
	if known.times >= burst-1 { // the object shows now who has undone the last one
		known.by = writersOf(ctx, c, target, content)
	}
	if status {
		err = w.client.Status().Patch(ctx, target, patch)
	} else {
		err = c.Patch(ctx, target, patch)
	}
	if err == nil {
		w.count(key, known)
		w.Wrote(target)
	}
	return err
}

// ErrStale matches the error of a decision that was based on a stale read; the next pass corrects it.
var ErrStale = errors.New("the caches are behind")

// Retryable reports whether an error only means that a later pass resolves it: it is an UndoneError, matches ErrStale, or is the conflict
// of a write that was based on an old object. Joined errors are retryable only if each of them is.
func Retryable(err error) bool {
	return Every(err, func(one error) bool {
		undone := (*UndoneError)(nil)
		return errors.As(one, &undone) || errors.Is(one, ErrStale) || apierrors.IsConflict(one)
	})
}

// Every reports whether a condition holds for an error, and for each of its joined errors.
func Every(err error, is func(error) bool) bool {
	for e := err; e != nil; e = errors.Unwrap(e) {
		if joined, ok := e.(interface{ Unwrap() []error }); ok {
			all := joined.Unwrap()
			return len(all) > 0 && !slices.ContainsFunc(all, func(one error) bool { return !Every(one, is) })
		}
	}
	return is(err)
}

// mark is the last write of an object that the cache does not show yet.
type mark struct {
	resourceVersion string
	at              time.Time
	// gone: the write removed the object. The API server returned the version from before the removal.
	gone bool
}

// MaxBehind is the maximum time for which a write is remembered, by the clock of the Writer: the cache never shows an object that was
// deleted right after the write, or by it.
const MaxBehind = 10 * time.Minute

// Wrote records a write by the answer of the API server. If two writes of one object are recorded in the wrong order, the later version
// counts. Records that are too old are dropped.
func (w *Writer) Wrote(obj metav1.Object) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.clock.Now()
	last, found := w.written[obj.GetUID()]
	order, err := resourceversion.CompareResourceVersion(obj.GetResourceVersion(), last.resourceVersion)
	if !found || err != nil || order >= 0 {
		w.written[obj.GetUID()] = mark{obj.GetResourceVersion(), now, removes(obj)}
	}
	if now.Sub(w.swept) >= lifetime {
		w.swept = now
		maps.DeleteFunc(w.written, func(_ types.UID, last mark) bool { return now.Sub(last.at) >= MaxBehind })
		maps.DeleteFunc(w.sent, func(_ subject, r repeats) bool { return now.Sub(r.last) >= lifetime })
	}
}

// removes reports whether a write with this answer removed the object: an object in deletion is removed with its last
// finalizer.
func removes(obj metav1.Object) bool {
	grace := obj.GetDeletionGracePeriodSeconds()
	return obj.GetDeletionTimestamp() != nil && len(obj.GetFinalizers()) == 0 && (grace == nil || *grace == 0)
}

// Behind reports whether obj is older than its last write, for MaxBehind at most. A pass over it would repeat that write, and a patch with
// its resource version would be rejected. If the last write removed the object, every copy is behind. If resource versions cannot be
// compared, no other object is behind.
func (w *Writer) Behind(obj metav1.Object) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, found := w.written[obj.GetUID()]
	if !found {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(obj.GetResourceVersion(), last.resourceVersion)
	if (last.gone || err == nil && order < 0) && w.clock.Since(last.at) < MaxBehind {
		return true
	}
	delete(w.written, obj.GetUID())
	return false
}
