package propagate

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Patch is a change of one Node, returned by [Policy.Diff]. The zero Patch changes nothing and applies to every Node.
type Patch struct {
	uid                     types.UID
	labels, annotations     []change
	taints                  []taintChange
	noLabels, noAnnotations bool
	noTaints                bool
}

// operation is one operation of RFC 6902. An absent value is "null", which differs from a missing value member.
type operation struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value,omitempty"`
}

// JSON returns the patch as an RFC 6902 document. The API server applies all of it, or nothing if one of its tests
// fails ([Rejected]). The tests cover what the decision depends on; see the package's comment. Send it with
// types.JSONPatchType to the Node itself, not to its status.
func (p Patch) JSON() []byte {
	ops := []operation{}
	if len(p.labels) > 0 || len(p.annotations) > 0 || len(p.taints) > 0 {
		ops = append(ops, operation{"test", "/metadata/uid", quote(string(p.uid))})
		ops = appendMap(ops, "/metadata/labels", p.labels, p.noLabels)
		ops = appendMap(ops, "/metadata/annotations", p.annotations, p.noAnnotations)
		ops = p.appendTaints(ops)
	}
	return encode(ops)
}

// String returns the patch as JSON, for logs and tests.
func (p Patch) String() string { return string(p.JSON()) }

// appendMap changes keys of one map. If the Node has no such map, the patch creates it, after a test that no other writer has created it.
func appendMap(ops []operation, path string, changes []change, absent bool) []operation {
	if len(changes) == 0 {
		return ops
	}
	if absent {
		ops = append(ops, operation{"test", path, null()}, operation{"add", path, json.RawMessage("{}")})
	}
	for _, c := range changes {
		at := path + "/" + escape(c.key)
		switch {
		case !c.tested || absent:
		case c.from.present:
			ops = append(ops, operation{"test", at, quote(c.from.text)})
		default:
			ops = append(ops, operation{"test", at, null()})
		}
		if c.to.present {
			ops = append(ops, operation{"add", at, quote(c.to.text)}) // an add replaces an existing value
		} else {
			ops = append(ops, operation{"remove", at, nil})
		}
	}
	return ops
}

// appendTaints tests the index of every taint that it changes: if another writer has moved the taint, the patch is
// rejected instead of changing another taint. Taints are added at the end, which does not affect other writers; the API
// server's validation rejects a duplicate that another writer added meanwhile.
func (p Patch) appendTaints(ops []operation) []operation {
	const path = "/spec/taints"
	var added []corev1.Taint
	for _, c := range p.taints {
		at := path + "/" + strconv.Itoa(c.index)
		if c.action == addTaint {
			added = append(added, c.taint)
			continue
		}
		ops = append(ops,
			operation{"test", at + "/key", quote(c.taint.Key)}, operation{"test", at + "/effect", quote(string(c.taint.Effect))})
		if c.action == setTaintValue {
			ops = append(ops, operation{"add", at + "/value", quote(c.taint.Value)})
		} else {
			ops = append(ops, operation{"remove", at, nil})
		}
	}
	if p.noTaints && len(added) > 0 {
		return append(ops, operation{"test", path, null()}, operation{"add", path, encode(added)})
	}
	for _, taint := range added {
		ops = append(ops, operation{"add", path + "/-", encode(taint)})
	}
	return ops
}

// Rejected reports whether an API server rejected a patch because the Node has changed since it was read: it was replaced, something that
// the decision depends on changed, or another writer added the same taint. Read the Node and call [Policy.Diff] again. Rejected is false if
// the resulting Node is invalid, which a retry does not solve; that response has the same status code, 422, but other causes.
func Rejected(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	if details == nil {
		return true
	}
	for _, cause := range details.Causes {
		if cause.Type != metav1.CauseTypeFieldValueDuplicate || !strings.Contains(cause.Field, "taints[") {
			return false
		}
	}
	return true
}

func escape(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}

func null() json.RawMessage { return json.RawMessage("null") }

func quote(s string) json.RawMessage { return encode(s) }

// encode uses the escapes of encoding/json on purpose: the API server uses them too when it encodes the Node, and its
// JSON Patch library compares encoded strings.
func encode(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil { // strings and taints always encode; the API server would reject invalid JSON as a whole
		return nil
	}
	return b
}
