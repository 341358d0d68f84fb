package simulation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// WebhookPrunes means that a webhook prunes: a field of the status or the provider ID disappears, as with a CRD that lacks it.
const WebhookPrunes Fault = "webhook prunes"

// webhook is what becomes of the writes of one kind until a time.
type webhook struct {
	kind string
	// verb begins the verbs that it is for; all without.
	verb  string
	until time.Time
	// refuses is the answer. change is made to the object that is to be stored. One of them is nil.
	refuses error
	change  func(*unstructured.Unstructured)
	// prunes: the change is to fields of the status.
	prunes bool
}

// lastLong is how long a webhook or a fight lasts: for minutes, or as long as there are faults.
func (w *World) lastLong() time.Time {
	return w.Now().Add(oneOf(w, time.Minute, 10*time.Minute, 1000*time.Hour))
}

// begins installs a webhook for a kind in the place of the one before.
func (w *World) begins(h webhook, what string) {
	h.until = w.lastLong()
	w.writers.webhook = &h
	w.note("webhook", fmt.Sprintf("%s for %s of %s until %s", what, h.verb+"*", h.kind, h.until.Sub(w.begun)), "")
}

func (w *World) anyServed() string { return oneOf(w, w.served...).Kind }

// webhookRefuses begins a webhook that refuses a verb, or all of them.
func (w *World) webhookRefuses(context.Context) {
	h := webhook{verb: oneOf(w, "", "create", "patch", "patch status", "update", "delete", "evict"), kind: w.anyServed()}
	if h.verb == "evict" {
		h.kind = "Pod"
	}
	denied := errors.New(`admission webhook "guard.example.com" denied the request`)
	h.refuses = oneOf[error](w,
		apierrors.NewForbidden(schema.GroupResource{Resource: h.kind}, "", denied),
		apierrors.NewInvalid(schema.GroupKind{Kind: h.kind}, "", nil),
		apierrors.NewInternalError(errors.New(`failed calling webhook "guard.example.com": context deadline exceeded`)),
	)
	w.begins(h, "refuses with "+string(apierrors.ReasonForError(h.refuses)))
}

// rewrites gives an object a label and an annotation.
func rewrites(obj *unstructured.Unstructured) {
	for _, name := range []string{"labels", "annotations"} {
		_ = unstructured.SetNestedField(obj.Object, "rewritten", "metadata", name, "example.com/webhook") // they are maps
	}
}

// webhookRemoves begins a webhook that removes a field of a class that an object has now.
func (w *World) webhookRemoves(what, class string) {
	kind, path := w.anyField(class, func([]string) bool { return true })
	if path == nil {
		return
	}
	verb := oneOf(w, "", "create", "patch")
	w.begins(webhook{kind: kind, verb: verb, prunes: class == "status", change: func(obj *unstructured.Unstructured) {
		if isForeign(obj) {
			return
		}
		was := obj.DeepCopy()
		was.SetKind(kind)
		w.takes(was, path)
		unstructured.RemoveNestedField(obj.Object, path...)
		if of, is, _ := unstructured.NestedMap(obj.Object, path[:2]...); is && len(of) == 0 && path[0] == "metadata" {
			unstructured.RemoveNestedField(obj.Object, path[:2]...)
		}
	}}, what+strings.Join(path, "."))
}

// admits carries a request out as the webhook allows it.
func (w *World) admits(r Request, call func() error) error {
	h := w.writers.webhook
	switch {
	case h == nil || w.calm || r.Cloud || !r.Write || r.Kind != h.kind || !strings.HasPrefix(r.Verb, h.verb) || !w.Now().Before(h.until):
		return call()
	case h.refuses != nil:
		return h.refuses
	case r.stores:
		clear(w.acting.recorded) // a change by a webhook is a write of somebody else
		w.writers.change = h.change
		defer func() { w.writers.change = nil }()
	}
	return call()
}

// changes is called for each object that is to be stored.
func (w *World) changes(obj *unstructured.Unstructured) {
	if w.writers.change != nil {
		w.writers.change(obj)
	}
}

// isPruned reports whether fields of the status of an object disappear, or did until the faults stopped.
func (w *World) isPruned(obj client.Object) bool {
	h := w.writers.webhook
	return h != nil && h.prunes && h.kind == obj.GetObjectKind().GroupVersionKind().Kind
}
