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
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// burst is how often the same patch of an object is sent without a pause.
	burst = 5
	// firstPause follows the burst. It doubles with each patch, up to longestPause.
	firstPause   = time.Second
	longestPause = time.Minute
	// maxNamed is how many fields, or their managers, a message names.
	maxNamed = 3
	// forgotten is when a patch that was not sent again is a new one.
	forgotten = 2 * longestPause
)

// subject is what is written: some content of an object, or its status.
type subject struct {
	object  types.UID
	content uint64 // zero for the status
}

type repeats struct {
	content uint64
	times   int
	last    time.Time
	by      atomic.Pointer[string] // who undoes it, nil while that was not asked
}

// UndoneError is the error of a patch that was not sent, because other writers have undone it too often. It is Retryable.
type UndoneError struct {
	// Object is the kind and the name of the object, Fields are what is undone, and By are the field managers that the object names for
	// these fields, empty when it names none. They are bounded.
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

// of returns what is known of a content, and whether it is still the same patch. It is called with the lock.
func (w *Writer) of(c content, status bool) (*repeats, bool) {
	key := subject{c.object, c.hash}
	if status {
		key.content = 0
	}
	r := w.sent[key]
	if r == nil {
		r = &repeats{}
		w.sent[key] = r
	}
	return r, r.content == c.hash && w.clock.Since(r.last) < forgotten
}

// deferred returns when a patch can be sent, zero for now, and what is known of it. A patch that another writer undoes again and again is
// put off: after a burst of five, the same patch of the same object is sent a second later, then after twice that time, up to a minute. Two
// minutes after the last one it is a new patch. Patches that differ only in times are the same; a status counts only while nothing else is
// written to it, because a status may rightly alternate. A patch without a UID is always sent.
func (w *Writer) deferred(c content, status bool) (time.Duration, *repeats) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r, same := w.of(c, status)
	if c.object == "" || !same || r.times < burst {
		return 0, r
	}
	pause := min(firstPause<<min(r.times-burst, 10), longestPause)
	if left := r.last.Add(pause).Sub(w.clock.Now()); left <= pause { // a clock that was set back defers nothing
		return left, r
	}
	return 0, r
}

// count remembers that a patch was sent.
func (w *Writer) count(c content, status bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r, same := w.of(c, status)
	if !same {
		r.times = 0
	}
	r.content, r.times, r.last = c.hash, r.times+1, w.clock.Now()
	r.by.Store(nil)
}

// writersOf asks the API server for the field managers of what a patch changes, by a patch that changes nothing: it needs no further right,
// and no cache answers it.
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
	if entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.GetRawBytes(), &all) != nil {
		return false
	}
	return slices.ContainsFunc(c.paths, func(path []string) bool {
		in := all
		for _, name := range path {
			next, found := in["f:"+name].(map[string]any)
			if !found {
				return false
			}
			in = next
		}
		return true
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

// content is what a patch changes, without what differs each time that the same is written: its preconditions, and times.
type content struct {
	object types.UID
	paths  [][]string
	hash   uint64
}

// timeForm are the times in a patch as JSON: in RFC 3339, and in seconds since 1970 as a member of an annotation that holds JSON.
var timeForm = regexp.MustCompile(`[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z|:1[0-9]{9}\b`)

// operation is one of a JSON patch.
type operation struct {
	Op, Path string
	Value    any
}

// contentOfPatch reads a merge patch, or a JSON patch that tests the UID.
func contentOfPatch(p client.Patch) (content, error) {
	raw, err := p.Data(nil)
	if err != nil {
		return content{}, err
	}
	var c content
	var changes any
	if p.Type() == types.JSONPatchType {
		changes, err = c.readOperations(raw)
	} else {
		changes, err = c.readMerge(raw)
	}
	if err != nil {
		return content{}, fmt.Errorf("read a patch: %w", err)
	}
	if raw, err = json.Marshal(changes); err != nil {
		return content{}, err
	}
	hash := fnv.New64a()
	_, _ = hash.Write(timeForm.ReplaceAllLiteral(raw, nil))
	c.hash = hash.Sum64()
	return c, nil
}

func (c *content) readOperations(raw []byte) (any, error) {
	var all []operation
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, err
	}
	var changes []operation
	names := strings.NewReplacer("~1", "/", "~0", "~")
	for _, o := range all {
		if uid, ok := o.Value.(string); ok && o.Op == "test" && o.Path == "/metadata/uid" {
			c.object = types.UID(uid)
		}
		if o.Op == "test" {
			continue
		}
		changes = append(changes, o)
		path := strings.Split(strings.TrimPrefix(o.Path, "/"), "/")
		for i, name := range path {
			path[i] = names.Replace(name)
		}
		c.paths = append(c.paths, path)
	}
	return changes, nil
}

func (c *content) readMerge(raw []byte) (any, error) {
	var body map[string]any
	if err := json.Unmarshal(raw, &body); err != nil {
		return nil, err
	}
	if metadata, ok := body["metadata"].(map[string]any); ok {
		uid, _ := metadata["uid"].(string)
		c.object = types.UID(uid)
		delete(metadata, "uid")
		delete(metadata, "resourceVersion")
	}
	c.addLeaves(nil, body)
	return body, nil
}

// addLeaves adds the paths to all values that are no objects.
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
		for _, name := range path {
			switch {
			case strings.ContainsAny(name, "./"):
				names[i] += "[" + name + "]"
			case names[i] == "":
				names[i] = name
			default:
				names[i] += "." + name
			}
		}
	}
	return FirstNamed(names, maxNamed)
}
