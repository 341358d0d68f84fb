package propagate

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// Patch is a change of one Node, as [Diff] returns it. The zero Patch changes nothing and applies to every Node.
type Patch struct {
	uid                     types.UID
	labels, annotations     []change
	noLabels, noAnnotations bool
	taint                   int
	taintValue              corev1.Taint
}

// operation is one operation of RFC 6902. An absent value is expected as "null", which differs from no value member.
type operation struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value,omitempty"`
}

// JSON returns the patch as an RFC 6902 document. It tests the Node's UID first and then every value before it changes it, so
// the API server applies all of it or nothing ([Rejected]). Send it with types.JSONPatchType to the Node itself, not to its
// status.
func (p Patch) JSON() []byte {
	ops := []operation{}
	if !p.empty() {
		ops = append(ops, operation{"test", "/metadata/uid", quote(string(p.uid))})
		ops = appendMap(ops, "/metadata/labels", p.labels, p.noLabels)
		ops = appendMap(ops, "/metadata/annotations", p.annotations, p.noAnnotations)
		ops = p.appendTaint(ops)
	}
	return encode(ops)
}

// String returns the patch as JSON, for logs and tests.
func (p Patch) String() string { return string(p.JSON()) }

func (p Patch) empty() bool {
	return len(p.labels) == 0 && len(p.annotations) == 0 && p.taintValue.Key == ""
}

// appendMap changes keys of one map. When the Node had no such map, the map has to be created; the test before it makes sure
// that this does not wipe out a map that somebody else created meanwhile.
func appendMap(ops []operation, path string, changes []change, absent bool) []operation {
	if len(changes) == 0 {
		return ops
	}
	if absent {
		ops = append(ops, operation{"test", path, null()}, operation{"add", path, json.RawMessage("{}")})
	}
	for _, c := range changes {
		at := path + "/" + escape(c.key)
		if c.from.present {
			ops = append(ops, operation{"test", at, quote(c.from.text)})
		} else if !absent {
			ops = append(ops, operation{"test", at, null()})
		}
		switch {
		case !c.to.present:
			ops = append(ops, operation{"remove", at, nil})
		case c.from.present:
			ops = append(ops, operation{"replace", at, quote(c.to.text)})
		default:
			ops = append(ops, operation{"add", at, quote(c.to.text)})
		}
	}
	return ops
}

// appendTaint tests the one entry that goes: when another writer has moved it, the patch is rejected rather than taking out a
// neighbour.
func (p Patch) appendTaint(ops []operation) []operation {
	if p.taintValue.Key == "" {
		return ops
	}
	at := "/spec/taints/" + strconv.Itoa(p.taint)
	return append(ops, operation{"test", at, encode(p.taintValue)}, operation{"remove", at, nil})
}

// Rejected says whether an API server refused a patch because one of its tests failed: the Node is another one, or a value
// changed since it was read. Read the Node again and call [Diff] again. It is false for a patch that is refused because the
// resulting Node is invalid, which no retry mends; that answer has the same status code, 422, but names the fields.
func Rejected(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details == nil || len(details.Causes) == 0
}

func escape(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}

func null() json.RawMessage { return json.RawMessage("null") }

func quote(s string) json.RawMessage { return encode(s) }

// encode uses the escapes of encoding/json on purpose: the API server encodes the Node with them too, and its JSON Patch
// library compares strings as encoded.
func encode(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil { // strings and taints always encode; a patch that is no JSON would be refused as a whole
		return nil
	}
	return b
}
