package floor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

// errLeftOut is why a request was not made.
var errLeftOut = errors.New("left out")

// counted is how many requests were made, and how many of them failed.
type counted struct{ sent, failed int }

// follower makes requests. Safe for concurrent use.
type follower struct {
	cache cache.Cache
	// client sends what the answers server knows the answer to, and live what only the API server can answer.
	client, live client.Client

	mu      sync.Mutex
	counted counted
}

func (f *follower) count(err error) {
	if errors.Is(err, errLeftOut) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counted.sent++
	if err != nil {
		f.counted.failed++
	}
}

// do makes one request. An answer is wanted when it is the one that the other has got.
func (f *follower) do(ctx context.Context, r cluster.AuditEvent) error {
	if r.Resource == "" || r.Resource == "leases" || r.Group == "authorization.k8s.io" {
		return errLeftOut
	}
	gvk, err := f.client.RESTMapper().KindFor(schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Resource})
	if err != nil {
		return errLeftOut
	}
	obj := f.empty(gvk, r)
	switch r.Verb {
	case "watch":
		_, err = f.cache.GetInformer(ctx, obj, cache.BlockUntilSynced(false))
		return errors.Join(errLeftOut, err)
	case "get":
		err = f.live.Get(ctx, client.ObjectKeyFromObject(obj), obj)
	case "create":
		err = f.create(ctx, r, obj)
	case "patch":
		err = f.patch(ctx, r, obj)
	case "delete":
		err = f.delete(ctx, r, obj)
	default:
		return errLeftOut // lists are those of the caches
	}
	if code := codeOf(err); code == r.Code || (code < http.StatusMultipleChoices && r.Code < http.StatusMultipleChoices) {
		return nil
	}
	return err
}

// codeOf is the HTTP status of an answer.
func codeOf(err error) int {
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return http.StatusOK
	case errors.As(err, &status):
		return int(status.Status().Code)
	}
	return http.StatusInternalServerError
}

// empty is an object of the type that examples/manager has for a kind.
func (f *follower) empty(gvk schema.GroupVersionKind, r cluster.AuditEvent) client.Object {
	var obj client.Object = &unstructured.Unstructured{}
	if made, err := f.client.Scheme().New(gvk); err == nil && (gvk.Kind == "Machine" || r.Group == "" || r.Group == "events.k8s.io") {
		if typed, ok := made.(client.Object); ok {
			obj = typed
		}
	}
	if u, ok := obj.(*unstructured.Unstructured); ok {
		u.SetGroupVersionKind(gvk)
	}
	obj.SetNamespace(r.Namespace)
	obj.SetName(r.Name)
	return obj
}

func (f *follower) create(ctx context.Context, r cluster.AuditEvent, obj client.Object) error {
	if r.Subresource != "" {
		eviction := &unstructured.Unstructured{}
		if err := json.Unmarshal(r.Sent, &eviction.Object); err != nil {
			return errLeftOut
		}
		return f.client.SubResource(r.Subresource).Create(ctx, obj, eviction)
	}
	if err := json.Unmarshal(r.Sent, obj); err != nil {
		return errLeftOut
	}
	if obj.GetNamespace() == "" {
		obj.SetNamespace(r.Namespace)
	}
	return f.client.Create(ctx, obj)
}

// patch sends the same patch.
func (f *follower) patch(ctx context.Context, r cluster.AuditEvent, obj client.Object) error {
	if len(r.Sent) == 0 {
		return errLeftOut
	}
	kind := types.MergePatchType
	if bytes.HasPrefix(r.Sent, []byte("[")) {
		kind = types.JSONPatchType
	}
	patch := client.RawPatch(kind, r.Sent)
	if r.Subresource == "" {
		return f.client.Patch(ctx, obj, patch)
	}
	return f.client.SubResource(r.Subresource).Patch(ctx, obj, patch)
}

// delete sends the same preconditions.
func (f *follower) delete(ctx context.Context, r cluster.AuditEvent, obj client.Object) error {
	var sent metav1.DeleteOptions
	if err := json.Unmarshal(r.Sent, &sent); err != nil {
		return errLeftOut
	}
	return f.client.Delete(ctx, obj, &client.DeleteOptions{
		Preconditions: sent.Preconditions, PropagationPolicy: sent.PropagationPolicy, GracePeriodSeconds: sent.GracePeriodSeconds,
	})
}
