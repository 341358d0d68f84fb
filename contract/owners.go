package contract

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// IsOwner reports whether a reference is to this owner, or to one of its group, kind and name with another UID, which is the same as it
// was before it was restored from a backup: a namespace has one object of that name. Rule: controller-runtime's SetControllerReference.
func IsOwner(ref, owner metav1.OwnerReference) bool {
	return ref.UID == owner.UID || (ref.Name == owner.Name && groupKind(ref) == groupKind(owner))
}

// RestoredOwner reports whether references name an owner by another UID than its own. The garbage collector takes what has no other owner.
func RestoredOwner(refs []metav1.OwnerReference, owner metav1.OwnerReference) bool {
	return slices.ContainsFunc(refs, func(ref metav1.OwnerReference) bool { return IsOwner(ref, owner) && ref.UID != owner.UID })
}

// WithOwner returns owner references with one more owner, which takes the place of what IsOwner. The others keep their order.
func WithOwner(refs []metav1.OwnerReference, owner metav1.OwnerReference) []metav1.OwnerReference {
	owners, placed := make([]metav1.OwnerReference, 0, len(refs)+1), false
	for _, ref := range refs {
		switch {
		case !IsOwner(ref, owner):
			owners = append(owners, ref)
		case !placed:
			owners, placed = append(owners, owner), true
		}
	}
	if !placed {
		owners = append(owners, owner)
	}
	return owners
}

// SameOwners reports whether two lists of owner references say the same. Their order says nothing.
func SameOwners(a, b []metav1.OwnerReference) bool {
	missing := func(list []metav1.OwnerReference) func(metav1.OwnerReference) bool {
		return func(ref metav1.OwnerReference) bool {
			return !slices.ContainsFunc(list, func(other metav1.OwnerReference) bool { return equalOwners(ref, other) })
		}
	}
	return len(a) == len(b) && !slices.ContainsFunc(a, missing(b)) && !slices.ContainsFunc(b, missing(a))
}

func equalOwners(a, b metav1.OwnerReference) bool {
	isTrue := func(b *bool) bool { return b != nil && *b }
	return a.APIVersion == b.APIVersion && a.Kind == b.Kind && a.Name == b.Name && a.UID == b.UID &&
		isTrue(a.Controller) == isTrue(b.Controller) && isTrue(a.BlockOwnerDeletion) == isTrue(b.BlockOwnerDeletion)
}

func groupKind(ref metav1.OwnerReference) schema.GroupKind {
	return schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()
}

// owners keeps the list that the state held before while it says the same: an entry has pointers, which would be
// allocated on every read.
func (r *reader) owners(before []metav1.OwnerReference) []metav1.OwnerReference {
	raw := r.raw(metaOwners)
	if raw == nil {
		return nil
	}
	if items, ok := raw.([]any); ok && (len(items) == 0 || sameOwners(before, items)) {
		return before[:len(items):len(items)]
	}
	return readEntries(r, metaOwners, nil, readOwner)
}

func readOwner(e entry) (o metav1.OwnerReference, err error) {
	var uid string
	for _, member := range []struct {
		key  string
		into *string
	}{{"apiVersion", &o.APIVersion}, {"kind", &o.Kind}, {"name", &o.Name}, {"uid", &uid}} {
		if *member.into, err = e.text(member.key); err != nil {
			return metav1.OwnerReference{}, err
		}
	}
	o.UID = types.UID(uid)
	if o.Controller, err = e.flag("controller"); err != nil {
		return metav1.OwnerReference{}, err
	}
	if o.BlockOwnerDeletion, err = e.flag("blockOwnerDeletion"); err != nil {
		return metav1.OwnerReference{}, err
	}
	return o, nil
}

// flag returns a bool that may be missing or null.
func (e entry) flag(key string) (*bool, error) {
	raw := e.values[key]
	if raw == nil {
		return nil, nil
	}
	flag, ok := raw.(bool)
	if !ok {
		return nil, &FieldError{Path: e.path(key), Want: "bool", Got: typeName(raw)}
	}
	return &flag, nil
}

func sameOwners(have []metav1.OwnerReference, items []any) bool {
	if len(have) != len(items) {
		return false
	}
	for i, item := range items {
		values, ok := item.(map[string]any)
		if !ok || !sameOwner(&have[i], values) {
			return false
		}
	}
	return true
}

func sameOwner(have *metav1.OwnerReference, values map[string]any) bool {
	return isText(values["apiVersion"], have.APIVersion) && isText(values["kind"], have.Kind) &&
		isText(values["name"], have.Name) && isText(values["uid"], string(have.UID)) &&
		isFlag(values["controller"], have.Controller) && isFlag(values["blockOwnerDeletion"], have.BlockOwnerDeletion)
}

func isFlag(raw any, want *bool) bool {
	if want == nil {
		return raw == nil
	}
	flag, ok := raw.(bool)
	return ok && flag == *want
}

func ownerContent(o metav1.OwnerReference) any {
	values := map[string]any{"apiVersion": o.APIVersion, "kind": o.Kind, "name": o.Name, "uid": string(o.UID)}
	if o.Controller != nil {
		values["controller"] = *o.Controller
	}
	if o.BlockOwnerDeletion != nil {
		values["blockOwnerDeletion"] = *o.BlockOwnerDeletion
	}
	return values
}
