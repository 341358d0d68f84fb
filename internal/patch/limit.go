package patch

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// burst is how often the same patch of an object is sent without a pause.
	burst = 5
	// firstPause follows the burst. It doubles with each patch, up to longestPause.
	firstPause   = time.Second
	longestPause = time.Minute
	// forgotten is when a patch that was not sent again is a new one.
	forgotten = 2 * longestPause
)

// limit sends patches, and defers one that another writer undoes again and again: after a burst of five, the same patch of the same object
// is sent a second later, then after twice that time, up to a minute. Two minutes after the last one it is a new patch. Patches that differ
// only in times are the same; a status counts only while nothing else is written to it, because a status may rightly alternate. Safe for
// concurrent use.
type limit struct {
	clock clock.PassiveClock

	mu    sync.Mutex
	all   map[subject]*repeats
	swept time.Time
}

// subject is what is written: some content of an object, or its status.
type subject struct {
	object  types.UID
	content uint64 // zero for the status
}

type repeats struct {
	content uint64
	times   int
	last    time.Time
	by      *string // who undoes it, nil while that was not asked
}

func newLimit(c clock.PassiveClock) *limit {
	return &limit{clock: c, all: map[subject]*repeats{}, swept: c.Now()}
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

// patch sends a patch of the object that target names by send, or returns an UndoneError. One without a UID is always sent. c writes the
// object itself.
func (l *limit) patch(
	ctx context.Context, c client.Writer, target client.Object, patch client.Patch, status bool, send func() error,
) error {
	content, err := contentOfPatch(patch)
	if err != nil {
		return err
	}
	if content.object == "" {
		return send()
	}
	if after, by := l.deferred(content, status); after > 0 {
		if by == nil {
			by = new(writersOf(ctx, c, target, content))
			l.undoneBy(content, status, by)
		}
		return &UndoneError{Object: nameOf(target), Fields: content.fields(), By: *by, After: after}
	}
	if err := send(); err != nil {
		return err
	}
	l.sent(content, status)
	return nil
}

// of returns what is known of a content, and whether it is still the same patch. It is called with the lock.
func (l *limit) of(c content, status bool) (*repeats, bool) {
	key := subject{c.object, c.hash}
	if status {
		key.content = 0
	}
	r := l.all[key]
	if r == nil {
		r = &repeats{}
		l.all[key] = r
	}
	return r, r.content == c.hash && l.clock.Since(r.last) < forgotten
}

// deferred returns when a patch can be sent, zero for now, and who undoes it, nil while that is not known.
func (l *limit) deferred(c content, status bool) (time.Duration, *string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, same := l.of(c, status)
	if !same || r.times < burst {
		return 0, nil
	}
	pause := min(firstPause<<min(r.times-burst, 10), longestPause)
	if left := r.last.Add(pause).Sub(l.clock.Now()); left <= pause { // a clock that was set back defers nothing
		return left, r.by
	}
	return 0, nil
}

func (l *limit) undoneBy(c content, status bool, by *string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r, same := l.of(c, status); same {
		r.by = by
	}
}

func (l *limit) sent(c content, status bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now()
	r, same := l.of(c, status)
	if !same {
		r.times = 0
	}
	r.content, r.times, r.last, r.by = c.hash, r.times+1, now, nil
	if now.Sub(l.swept) >= forgotten {
		l.swept = now
		maps.DeleteFunc(l.all, func(_ subject, r *repeats) bool { return now.Sub(r.last) >= forgotten })
	}
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
	return firstOf(names)
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

// firstOf joins the first few names.
func firstOf(names []string) string {
	const few = 3
	if len(names) > few {
		return fmt.Sprintf("%s, ... (%d more)", strings.Join(names[:few], ", "), len(names)-few)
	}
	return strings.Join(names, ", ")
}
