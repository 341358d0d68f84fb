package patch

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Writer sends patches and remembers them until the cache shows them. Safe for concurrent use.
type Writer struct {
	client client.Client
	*marks
	pace
}

// NewWriter returns a Writer for a client. It makes no request. A nil clock is the real one; it times MaxBehind and Pace, no request.
func NewWriter(c client.Client, passive clock.PassiveClock) *Writer {
	if passive == nil {
		passive = clock.RealClock{}
	}
	return &Writer{client: c, marks: newMarks(passive), pace: pace{clock: passive}}
}

// Send sends a document that was built from on, with its UID, and with its resource version when the document replaces a list, goes
// to the status endpoint (status), which knows no UIDs, or when guarded is true: then the object has not changed meanwhile. It
// fills into, an empty object of the same kind, with what the server answers, and changes neither on nor the document. See Retryable
// for the errors that a fresh read mends.
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

// Patch sends a merge patch for the object that target names, fills target with what the server answers, and remembers the version
// that came back. The body says itself to which UID and which version it applies.
func (w *Writer) Patch(ctx context.Context, target client.Object, body map[string]any, status bool) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	patch := client.RawPatch(types.MergePatchType, raw)
	start := w.pace.clock.Now()
	if status {
		err = w.client.Status().Patch(ctx, target, patch)
	} else {
		err = w.client.Patch(ctx, target, patch)
	}
	if err == nil {
		w.took(w.pace.clock.Since(start))
		w.Wrote(target)
	}
	return err
}

// Retryable reports whether an error only says that a pass was decided on an old read, which the next pass mends: a conflict, or a
// patch that names the UID of an object which was replaced. That is answered 422 and not 409, because patches have no
// preconditions. Of errors that were joined, all must say so: none is hidden by the others.
func Retryable(err error) bool {
	for e := err; e != nil; e = errors.Unwrap(e) {
		if joined, ok := e.(interface{ Unwrap() []error }); ok {
			all := joined.Unwrap()
			return len(all) > 0 && !slices.ContainsFunc(all, func(one error) bool { return !Retryable(one) })
		}
	}
	return apierrors.IsConflict(err) || slices.ContainsFunc(causes(err), func(c metav1.StatusCause) bool { return c.Field == "metadata.uid" })
}

func causes(err error) []metav1.StatusCause {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	return status.Status().Details.Causes
}
