package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// patcher is the client of a connection. If the API server does not support JSON Patch (415), as Cluster API's
// in-memory one, it reads the object, applies the patch to the copy, and sends the difference as a merge patch with the
// UID and the resource version. It does so from the first 415 on, for as long as the connection lives.
type patcher struct {
	client.Client

	live   client.Reader
	merges atomic.Bool // JSON Patch was refused
}

// newPatcher is a client.NewClientFunc.
func newPatcher(config *rest.Config, options client.Options) (client.Client, error) {
	own, err := client.New(config, options)
	if err != nil {
		return nil, err
	}
	options.Cache = nil
	live, err := client.New(config, options)
	return &patcher{Client: own, live: live}, err
}

// Patch implements client.Writer.
func (p *patcher) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	if patch.Type() != types.JSONPatchType {
		return p.Client.Patch(ctx, obj, patch, opts...)
	}
	if !p.merges.Load() {
		err := p.Client.Patch(ctx, obj, patch, opts...)
		if !apierrors.IsUnsupportedMediaType(err) {
			return err
		}
		p.merges.Store(true)
	}
	data, err := patch.Data(obj)
	if err != nil {
		return err
	}
	for range 3 { // a heartbeat changes the resource version, so it retries conflicts
		merge, failed := p.asMerge(ctx, obj, data)
		if failed != nil {
			return failed
		}
		if err = p.Client.Patch(ctx, obj, client.RawPatch(types.MergePatchType, merge), opts...); !apierrors.IsConflict(err) {
			return err
		}
	}
	return err
}

// asMerge returns the effect of a JSON patch on the current object, as a merge patch that applies only to that version
// of it.
func (p *patcher) asMerge(ctx context.Context, obj client.Object, patch []byte) ([]byte, error) {
	current, ok := obj.DeepCopyObject().(client.Object)
	if !ok {
		return nil, fmt.Errorf("the copy of a %T is not of that type", obj)
	}
	if err := p.live.Get(ctx, client.ObjectKeyFromObject(obj), current); err != nil {
		return nil, err
	}
	before, err := json.Marshal(current)
	if err != nil {
		return nil, err
	}
	after, err := applied(patch, before)
	if err != nil { // the same error that an API server returns
		return nil, apierrors.NewGenericServerResponse(
			http.StatusUnprocessableEntity, "patch", schema.GroupResource{}, obj.GetName(), err.Error(), 0, false)
	}
	current.SetUID("") // so that UID and resource version are part of the difference
	current.SetResourceVersion("")
	if before, err = json.Marshal(current); err != nil {
		return nil, err
	}
	return jsonmergepatch.CreateThreeWayJSONMergePatch(before, after, before)
}

// applied returns a document after a JSON patch.
func applied(patch, document []byte) ([]byte, error) {
	operations, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, err
	}
	return operations.Apply(document)
}
