package cluster

import (
	"context"
	"encoding/json"
	"net/http"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// patcher is the client of a connection. If the API server does not support JSON Patch (415), like Cluster API's in-memory one, it applies
// the patch to the cached object, and sends the difference as a merge patch with the UID and the resource version.
type patcher struct{ client.Client }

// newPatcher is a client.NewClientFunc.
func newPatcher(config *rest.Config, options client.Options) (client.Client, error) {
	own, err := client.New(config, options)
	return patcher{own}, err
}

// Patch implements client.Writer.
func (p patcher) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	err := p.Client.Patch(ctx, obj, patch, opts...)
	if patch.Type() != types.JSONPatchType || !apierrors.IsUnsupportedMediaType(err) {
		return err
	}
	data, err := patch.Data(obj)
	if err == nil {
		err = p.Get(ctx, client.ObjectKeyFromObject(obj), obj)
	}
	if err != nil {
		return err
	}
	merge, err := asMerge(obj, data)
	if err != nil { // the same error that an API server returns
		return apierrors.NewGenericServerResponse(
			http.StatusUnprocessableEntity, "patch", schema.GroupResource{}, obj.GetName(), err.Error(), 0, false)
	}
	return p.Client.Patch(ctx, obj, client.RawPatch(types.MergePatchType, merge), opts...)
}

// asMerge returns the effect of a JSON patch on an object, as a merge patch that applies only to that version of it.
func asMerge(obj client.Object, patch []byte) ([]byte, error) {
	operations, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, err
	}
	before, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	after, err := operations.Apply(before)
	if err != nil {
		return nil, err
	}
	obj.SetUID("") // so that UID and resource version are part of the difference
	obj.SetResourceVersion("")
	if before, err = json.Marshal(obj); err != nil {
		return nil, err
	}
	return jsonpatch.CreateMergePatch(before, after)
}
