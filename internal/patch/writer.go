package patch

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Writer sends patches at a limited rate, and remembers them until the cache shows them. It is safe for concurrent use.
type Writer struct {
	client client.Client
	clock  clock.PassiveClock

	mu      sync.Mutex
	written map[types.UID]mark
	sent    map[subject]*repeats
	swept   time.Time
}

// NewWriter returns a Writer for a client. It makes no request. A nil clock is the real one.
func NewWriter(c client.Client, passive clock.PassiveClock) *Writer {
	if passive == nil {
		passive = clock.RealClock{}
	}
	return &Writer{client: c, clock: passive, written: map[types.UID]mark{}, sent: map[subject]*repeats{}, swept: passive.Now()}
}

// Send sends a document that was made from the object on. The patch names the UID of on. It also names its resource
// version when the document replaces a list, when it goes to the status endpoint (which ignores UIDs), or when guarded
// is true: then the write fails if the object has changed. Send fills into, an empty object of the same kind, with the
// answer of the server. It changes neither on nor the document. See Retryable for errors that the next pass resolves.
func (w *Writer) Send(ctx context.Context, on metav1.Object, into client.Object, d Document, status, guarded bool) error {
	body := make(map[string]any, len(d.body)+1)
	maps.Copy(body, d.body)
	metadata := map[string]any{}
	if have, ok := d.body["metadata"].(map[string]any); ok {
		maps.Copy(metadata, have)
	}
	metadata["uid"] = string(on.GetUID())
	if d.replacesList || status || guarded {
		metadata["resourceVersion"] = on.GetResourceVersion()
	}
	body["metadata"] = metadata
	into.SetNamespace(on.GetNamespace())
	into.SetName(on.GetName())
	return w.Patch(ctx, into, body, status)
}

// Patch sends a merge patch for the object that target names, fills target with the answer of the server, and remembers
// the new version. The body must contain the UID and the version that it applies to. The error of a patch that others have undone too
// often is an UndoneError.
func (w *Writer) Patch(ctx context.Context, target client.Object, body map[string]any, status bool) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return w.send(ctx, w.client, target, client.RawPatch(types.MergePatchType, raw), status)
}

// PatchThrough is Patch of any type through another client, such as that of the cluster of a Node.
func (w *Writer) PatchThrough(ctx context.Context, c client.Writer, target client.Object, patch client.Patch) error {
	return w.send(ctx, c, target, patch, false)
}

func (w *Writer) send(ctx context.Context, c client.Writer, target client.Object, patch client.Patch, status bool) error {
	content, err := contentOfPatch(patch)
	if err != nil {
		return err
	}
	if after, known := w.deferred(content, status); after > 0 {
		by := known.by.Load()
		if by == nil {
			by = new(writersOf(ctx, c, target, content))
			known.by.Store(by)
		}
		return &UndoneError{Object: nameOf(target), Fields: content.fields(), By: *by, After: after}
	}
	if status {
		err = w.client.Status().Patch(ctx, target, patch)
	} else {
		err = c.Patch(ctx, target, patch)
	}
	if err == nil {
		w.count(content, status)
		w.Wrote(target)
	}
	return err
}

// Retryable reports whether an error only means that a later pass resolves it: it is an UndoneError, or the pass used an old object, which
// is a conflict, or a patch with the UID of an object that was replaced. The API server answers the latter with 422 and not with 409,
// because patches have no preconditions. Joined errors are retryable only if each of them is. An error that matches one of also is
// retryable too.
func Retryable(err error, also ...error) bool {
	for e := err; e != nil; e = errors.Unwrap(e) {
		if joined, ok := e.(interface{ Unwrap() []error }); ok {
			all := joined.Unwrap()
			return len(all) > 0 && !slices.ContainsFunc(all, func(one error) bool { return !Retryable(one, also...) })
		}
	}
	undone := (*UndoneError)(nil)
	return errors.As(err, &undone) || apierrors.IsConflict(err) ||
		slices.ContainsFunc(also, func(one error) bool { return errors.Is(err, one) }) ||
		slices.ContainsFunc(causes(err), func(c metav1.StatusCause) bool { return c.Field == "metadata.uid" })
}

func causes(err error) []metav1.StatusCause {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	return status.Status().Details.Causes
}

// mark is the last write of an object that the cache has yet to show.
type mark struct {
	resourceVersion string
	at              time.Time
	// gone: the write removed the object. The API server returned the version from before the removal.
	gone bool
}

// MaxBehind is how long a write is remembered at most, by the clock of the Writer: the cache never shows an object that
// was deleted right after the write, or by it.
const MaxBehind = 10 * time.Minute

// Wrote records a write by the answer of the API server. If two writes of one object are recorded in the wrong order, the later version
// counts. What is too old to matter is forgotten.
func (w *Writer) Wrote(obj metav1.Object) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.clock.Now()
	last, found := w.written[obj.GetUID()]
	order, err := resourceversion.CompareResourceVersion(obj.GetResourceVersion(), last.resourceVersion)
	if !found || err != nil || order >= 0 {
		w.written[obj.GetUID()] = mark{obj.GetResourceVersion(), now, removes(obj)}
	}
	if now.Sub(w.swept) >= forgotten {
		w.swept = now
		maps.DeleteFunc(w.written, func(_ types.UID, last mark) bool { return now.Sub(last.at) >= MaxBehind })
		maps.DeleteFunc(w.sent, func(_ subject, r *repeats) bool { return now.Sub(r.last) >= forgotten })
	}
}

// removes reports whether a write with this answer removed the object: an object in deletion is removed with its last
// finalizer.
func removes(obj metav1.Object) bool {
	grace := obj.GetDeletionGracePeriodSeconds()
	return obj.GetDeletionTimestamp() != nil && len(obj.GetFinalizers()) == 0 && (grace == nil || *grace == 0)
}

// Behind reports whether obj is older than its last write, for MaxBehind at most. A pass over it would repeat that
// write, and a patch with its resource version would be rejected. If the last write removed the object, every copy is
// behind. If resource versions cannot be compared, no other object is behind.
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
