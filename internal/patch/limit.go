package patch

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// burst is how often the same patch of an object is sent without a delay.
	burst = 5
	// firstPause follows the burst. It doubles with each patch, up to longestPause.
	firstPause   = time.Second
	longestPause = time.Minute
	// maxNamed is the maximum number of fields, or of managers, in a message.
	maxNamed = 3
	// lifetime is the time after which a patch that was not sent again counts as new.
	lifetime = 2 * longestPause
)

// subject is the target of a write: some content of an object, or its status.
type subject struct {
	object  types.UID
	content uint64 // zero for the status
}

// repeats is how often the same patch was sent, the time of the last one, and who had undone it before.
type repeats struct {
	content uint64
	times   int
	last    time.Time
	by      string
}

// UndoneError is the error of a patch that was not sent, because other writers have undone it too often. It is Retryable.
type UndoneError struct {
	// Object is the kind and the name of the object. Fields are the undone fields, and By are the field managers of these fields in the
	// object, empty without any. They are bounded.
	Object, Fields, By string
	// After is when the patch can be sent again.
	After time.Duration
}

func (e *UndoneError) Error() string {
	by := ""
	if e.By != "" {
		by = " by " + e.By
	}
	return fmt.Sprintf("%s of %s is changed back%s each time that it is written", e.Fields, e.Object, by)
}

// known returns the record of a content, and its key. Two minutes after it was last sent a content counts as new. A status counts only
// while nothing else is written to it, because a status may alternate for good reasons.
func (w *Writer) known(c content, status bool) (subject, repeats) {
	key := subject{c.object, c.hash}
	if status {
		key.content = 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if r := w.sent[key]; r.content == c.hash && w.clock.Since(r.last) < lifetime {
		return key, r
	}
	return key, repeats{content: c.hash}
}

// pause returns how long a patch that another writer undoes again and again is delayed: after a burst of five, the same patch of the same
// object is sent a second later, then after twice that time, up to a minute. Patches that differ only in times are the same.
func (r repeats) pause(now time.Time) time.Duration {
	if r.times < burst {
		return 0
	}
	pause := min(firstPause<<min(r.times-burst, 10), longestPause)
	if left := r.last.Add(pause).Sub(now); left <= pause { // a clock that was set back delays nothing
		return left
	}
	return 0
}

// count records that a patch was sent.
func (w *Writer) count(key subject, r repeats) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r.times, r.last = r.times+1, w.clock.Now()
	w.sent[key] = r
}

// writersOf reads the field managers of a patch's fields from the API server, by a patch that changes nothing: it needs no further rights,
// and is never answered from a cache.
func writersOf(ctx context.Context, through client.Writer, target client.Object, c content) string {
	live, _ := target.DeepCopyObject().(client.Object)
	nothing := fmt.Appendf(nil, `{"metadata":{"uid":%q}}`, c.object)
	if through.Patch(ctx, live, client.RawPatch(types.MergePatchType, nothing), client.DryRunAll) != nil {
		return ""
	}
	var names []string
	for _, entry := range live.GetManagedFields() {
		if !slices.Contains(names, entry.Manager) && c.isManagedBy(entry) {
			names = append(names, entry.Manager)
		}
	}
	slices.Sort(names)
	return FirstNamed(names, maxNamed)
}

// isManagedBy reports whether an entry of the managed fields contains a field of the content.
func (c content) isManagedBy(entry metav1.ManagedFieldsEntry) bool {
	var all map[string]any
	if entry.FieldsV1 == nil || json.Unmarshal([]byte(entry.FieldsV1.String()), &all) != nil {
		return false
	}
	return slices.ContainsFunc(c.paths, func(path []string) bool {
		managed := make([]string, len(path))
		for i, name := range path {
			managed[i] = "f:" + name
		}
		_, found, _ := unstructured.NestedFieldNoCopy(all, managed...)
		return found
	})
}

// nameOf names an object in a message.
func nameOf(obj client.Object) string {
	kind := obj.GetObjectKind().GroupVersionKind().Kind
	if kind == "" {
		kind = reflect.TypeOf(obj).Elem().Name()
	}
	return kind + " " + strings.TrimPrefix(obj.GetNamespace()+"/"+obj.GetName(), "/")
}

// FirstNamed joins names for a message: the first few, and how many more there are.
func FirstNamed(names []string, few int) string {
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s, ... (%d more)", strings.Join(names[:few], ", "), len(names)-few)
}

// content is the content of a patch without the parts that differ each time: its preconditions, and times.
type content struct {
	object types.UID
	paths  [][]string
	hash   uint64
}

// timeForm matches the times in a patch as JSON: in RFC 3339, and in seconds since 1970 as a field of an annotation that contains JSON.
var timeForm = regexp.MustCompile(`[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z|:1[0-9]{9}\b`)

// contentOfPatch reads a merge patch, or a JSON patch that tests the UID.
func contentOfPatch(p client.Patch) (content, error) {
	raw, err := p.Data(nil)
	if err != nil {
		return content{}, err
	}
	var changes map[string]any
	if p.Type() == types.JSONPatchType {
		changes, err = asMerge(raw)
	} else {
		err = json.Unmarshal(raw, &changes)
	}
	if err != nil {
		return content{}, fmt.Errorf("read a patch: %w", err)
	}
	uid, _, _ := unstructured.NestedString(changes, "metadata", "uid")
	unstructured.RemoveNestedField(changes, "metadata", "uid")
	unstructured.RemoveNestedField(changes, "metadata", "resourceVersion")
	if raw, err = json.Marshal(changes); err != nil {
		return content{}, err
	}
	hash := fnv.New64a()
	_, _ = hash.Write(timeForm.ReplaceAllLiteral(raw, nil))
	c := content{object: types.UID(uid), hash: hash.Sum64()}
	c.addLeaves(nil, changes)
	return c, nil
}

// asMerge returns the values that a JSON patch sets, and the UID that it tests, as a merge patch.
func asMerge(raw []byte) (map[string]any, error) {
	var operations []struct {
		Op, Path string
		Value    any
	}
	if err := json.Unmarshal(raw, &operations); err != nil {
		return nil, err
	}
	changes := map[string]any{}
	for _, o := range operations {
		if o.Op == "test" && o.Path != "/metadata/uid" {
			continue
		}
		path := strings.Split(strings.TrimPrefix(o.Path, "/"), "/")
		for i, name := range path {
			path[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
		}
		_ = unstructured.SetNestedField(changes, o.Value, path...) // fails where an operation of the same patch has set a value above it
	}
	return changes, nil
}

// addLeaves adds the paths of all values that are not objects.
func (c *content) addLeaves(path []string, value map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(value)) {
		to := append(slices.Clone(path), name)
		if next, ok := value[name].(map[string]any); ok {
			c.addLeaves(to, next)
			continue
		}
		c.paths = append(c.paths, to)
	}
}

// fields names the changed fields for a message.
func (c content) fields() string {
	names := make([]string, len(c.paths))
	for i, path := range c.paths {
		var at *field.Path
		for _, name := range path {
			if strings.ContainsAny(name, "./") {
				at = at.Key(name)
			} else {
				at = at.Child(name)
			}
		}
		names[i] = at.String()
	}
	return FirstNamed(names, maxNamed)
}
