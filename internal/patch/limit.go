package patch

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
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
	live, ok := reflect.TypeAssert[client.Object](reflect.New(reflect.TypeOf(target).Elem()))
	if !ok {
		return ""
	}
	live.GetObjectKind().SetGroupVersionKind(target.GetObjectKind().GroupVersionKind())
	live.SetNamespace(target.GetNamespace())
	live.SetName(target.GetName())
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
