package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// patcher is the client of a connection. Where the API server knows no JSON Patch (415), as Cluster API's in-memory one, it reads the
// object, applies the patch to that, and sends what has changed as a merge patch that names the UID and the resource version: from the
// first refusal on, for as long as the connection lives.
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
	for range 3 { // a heartbeat is no conflict for a JSON patch
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

// asMerge is what a JSON patch does to an object as it is now, as a merge patch that applies to nothing else.
func (p *patcher) asMerge(ctx context.Context, obj client.Object, patch []byte) ([]byte, error) {
	current, ok := obj.DeepCopyObject().(client.Object)
	if !ok {
		return nil, fmt.Errorf("the copy of a %T is none", obj)
	}
	if err := p.live.Get(ctx, client.ObjectKeyFromObject(obj), current); err != nil {
		return nil, err
	}
	before, err := runtime.DefaultUnstructuredConverter.ToUnstructured(current)
	if err != nil {
		return nil, err
	}
	after, err := applyPatch(runtime.DeepCopyJSON(before), patch)
	if err != nil { // as API servers say it
		return nil, apierrors.NewGenericServerResponse(
			http.StatusUnprocessableEntity, "patch", schema.GroupResource{}, obj.GetName(), err.Error(), 0, false)
	}
	if metadata, ok := before["metadata"].(map[string]any); ok { // what guards the patch is a difference
		delete(metadata, "uid")
		delete(metadata, "resourceVersion")
	}
	was, err := json.Marshal(before)
	if err != nil {
		return nil, err
	}
	is, err := json.Marshal(after)
	if err != nil {
		return nil, err
	}
	return jsonmergepatch.CreateThreeWayJSONMergePatch(was, is, was)
}

// operation is one of RFC 6902: test, add, replace or remove.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// applyPatch applies a JSON patch to an object, which it changes.
func applyPatch(object map[string]any, patch []byte) (any, error) {
	var operations []operation
	if err := json.Unmarshal(patch, &operations); err != nil {
		return nil, err
	}
	var in any = object
	for _, o := range operations {
		path := strings.Split(o.Path, "/")
		value, err := json.Marshal(o.Value)
		if err == nil {
			err = utiljson.Unmarshal(value, &o.Value) // whole numbers as the object has them
		}
		if err == nil && (len(path) < 2 || path[0] != "") {
			err = errors.New("the path leads to no member")
		}
		if err == nil {
			in, err = o.apply(in, path[1:])
		}
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", o.Op, o.Path, err)
		}
	}
	return in, nil
}

var errNoMember = errors.New("there is no such member")

// apply returns what is below a path with the operation applied.
func (o operation) apply(in any, path []string) (any, error) {
	key := strings.NewReplacer("~1", "/", "~0", "~").Replace(path[0])
	switch in := in.(type) {
	case map[string]any:
		value, found := in[key]
		if len(path) > 1 {
			below, err := o.apply(value, path[1:])
			if found {
				in[key] = below
			}
			return in, err
		}
		switch {
		case o.Op == "test":
			return in, o.test(value)
		case o.Op == "remove" && found:
			delete(in, key)
			return in, nil
		case o.Op == "add", o.Op == "replace" && found:
			in[key] = o.Value
			return in, nil
		}
	case []any:
		at, err := strconv.Atoi(key)
		if key == "-" && o.Op == "add" {
			at, err = len(in), nil
		}
		switch {
		case err != nil || at < 0 || at > len(in) || at == len(in) && o.Op != "add":
		case len(path) > 1:
			in[at], err = o.apply(in[at], path[1:])
			return in, err
		case o.Op == "test":
			return in, o.test(in[at])
		case o.Op == "remove":
			return slices.Delete(in, at, at+1), nil
		case o.Op == "replace":
			in[at] = o.Value
			return in, nil
		case o.Op == "add":
			return slices.Insert(in, at, o.Value), nil
		}
	}
	return in, errNoMember
}

// test compares; what is absent is null.
func (o operation) test(value any) error {
	if !reflect.DeepEqual(value, o.Value) {
		return errors.New("the value is another one")
	}
	return nil
}
