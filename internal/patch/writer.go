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
