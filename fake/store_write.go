package fake

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const optimisticLockMessage = "the object has been modified; please apply your changes to the latest version and try again"

// create stores a new object. The caller holds the lock.
func (s *Store) create(k *kind, namespace string, content map[string]any, dryRun bool) (*record, error) {
	u := &unstructured.Unstructured{Object: content}
	s.admitted(k, u)
	if u.GetResourceVersion() != "" {
		return nil, fmt.Errorf("resourceVersion should not be set on objects to be created")
	}
	if err := matchNamespace(k, namespace, u); err != nil {
		return nil, err
	}
	if err := s.admitNamespace(k.groupResource(), namespace, u.GetName()); err != nil {
		return nil, err
	}
	for attempt := 0; ; attempt++ {
		generated := u.GetName() == "" && u.GetGenerateName() != ""
		if generated {
			u.SetName(s.generateName(u.GetGenerateName()))
		}
		key := types.NamespacedName{Namespace: namespace, Name: u.GetName()}
		if k.get(key) == nil {
			break
		}
		if !generated || attempt == 8 {
			return nil, apierrors.NewAlreadyExists(k.groupResource(), key.Name)
		}
		u.SetName("")
	}
	u.SetUID(s.newUID())
	u.SetCreationTimestamp(s.now())
	u.SetDeletionTimestamp(nil)
	u.SetDeletionGracePeriodSeconds(nil)
	prepareCreate(k, u)
	if errs := validateMeta(k, u); len(errs) > 0 {
		return nil, apierrors.NewInvalid(k.GroupKind, u.GetName(), errs)
	}
	key := types.NamespacedName{Namespace: namespace, Name: u.GetName()}
	if dryRun {
		return newRecord(k, key, content, 0)
	}
	if k.isCRD() {
		if err := s.serveCRD(content); err != nil {
			return nil, apierrors.NewInvalid(k.GroupKind, u.GetName(), field.ErrorList{field.InternalError(field.NewPath("spec"), err)})
		}
		establish(content, s.now())
	}
	return s.store(k, key, content)
}

// change is one update or patch of an object.
type change struct {
	kind   *kind
	key    types.NamespacedName
	view   *view     // of the request; nil for the store's own writes
	status bool      // through the status subresource
	uid    types.UID // precondition of a PUT; a PATCH has none
	dryRun bool
	// manager is the field manager of the write, for objects with managed fields; the loops if empty.
	manager string
	applied bool // the managed fields are up to date
	// apply returns the wanted content for the current record; the store takes ownership of the result.
	apply func(current *record) (map[string]any, error)
}

// update performs a change in the order of the real server: preconditions, the patch, the version check, the rules of the kind, and
// validation. Then it removes the object if its deletion is complete, does nothing if nothing changed, or stores a new version.
func (s *Store) update(c change) (*record, error) {
	gr := c.kind.groupResource()
	current := c.kind.get(c.key)
	if current == nil {
		return nil, apierrors.NewNotFound(gr, c.key.Name)
	}
	if c.uid != "" && c.uid != current.uid {
		return nil, apierrors.NewConflict(gr, c.key.Name, fmt.Errorf( //nolint:staticcheck // the server's text
			"Precondition failed: UID in precondition: %v, UID in object meta: %v", c.uid, current.uid))
	}
	content, err := c.apply(current)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{Object: content}
	s.admitted(c.kind, u)
	if err := c.checkIdentity(u, current); err != nil {
		return nil, err
	}
	managed := u.GetManagedFields()
	prepareUpdate(c.kind, u, current, c.status)
	s.track(c, u, current, managed)
	content = u.Object
	if errs := validateUpdate(c.kind, u, current); len(errs) > 0 {
		return nil, apierrors.NewInvalid(c.kind.GroupKind, c.key.Name, errs)
	}
	if removedByUpdate(u, current) {
		if !c.dryRun {
			s.remove(current)
		}
		return newRecord(c.kind, c.key, content, current.version)
	}
	u.SetResourceVersion(current.meta().GetResourceVersion())
	if reflect.DeepEqual(content, current.content) {
		return current, nil
	}
	if c.dryRun {
		return newRecord(c.kind, c.key, content, current.version)
	}
	if c.kind.isCRD() && !c.status {
		if err := s.serveCRD(content); err != nil {
			return nil, apierrors.NewInvalid(c.kind.GroupKind, c.key.Name, field.ErrorList{field.InternalError(field.NewPath("spec"), err)})
		}
	}
	return s.store(c.kind, c.key, content)
}

func (c change) checkIdentity(u *unstructured.Unstructured, current *record) error {
	if u.GetName() != c.key.Name {
		return nameMismatch(u.GetName(), c.key.Name)
	}
	if err := matchNamespace(c.kind, c.key.Namespace, u); err != nil {
		return err
	}
	version := u.GetResourceVersion()
	if version == "" || version == "0" {
		if c.kind.updates {
			u.SetResourceVersion(current.meta().GetResourceVersion())
			return nil
		}
		// The API server uses the resource as the kind in this error.
		gk := schema.GroupKind{Group: c.kind.Group, Kind: c.kind.resource}
		return apierrors.NewInvalid(gk, c.key.Name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "resourceVersion"), 0, "must be specified for an update"),
		})
	}
	if version != strconv.FormatUint(current.version, 10) {
		return apierrors.NewConflict(c.kind.groupResource(), c.key.Name, errors.New(optimisticLockMessage))
	}
	return nil
}

func nameMismatch(object, url string) error {
	return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", object, url))
}

func matchNamespace(k *kind, namespace string, u *unstructured.Unstructured) error {
	if !k.namespaced {
		namespace = ""
	}
	switch u.GetNamespace() {
	case namespace:
	case "":
		u.SetNamespace(namespace)
	default:
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	return nil
}

// validateMeta runs the API server's validation of object metadata.
func validateMeta(k *kind, u *unstructured.Unstructured) field.ErrorList {
	name := validation.ValidateNameFunc(validation.NameIsDNSSubdomain)
	if k.Group == "rbac.authorization.k8s.io" {
		name = path.ValidatePathSegmentName //nolint:staticcheck // the server uses it for these kinds
	}
	return validation.ValidateObjectMetaAccessor(u, k.namespaced, name, field.NewPath("metadata"))
}

func validateUpdate(k *kind, u *unstructured.Unstructured, current *record) field.ErrorList {
	errs := validateMeta(k, u)
	errs = append(errs, validation.ValidateObjectMetaAccessorUpdate(u, current.meta(), field.NewPath("metadata"))...)
	if current.meta().GetDeletionTimestamp() != nil {
		errs = append(errs, validation.ValidateNoNewFinalizers(u.GetFinalizers(), current.meta().GetFinalizers(),
			field.NewPath("metadata", "finalizers"))...)
	}
	errs = append(errs, validateFixed(k, u.Object, current.content)...)
	return errs
}

// removedByUpdate reports whether an update completes a deletion: no finalizer and no grace period remain.
func removedByUpdate(u *unstructured.Unstructured, current *record) bool {
	old := current.meta()
	if len(u.GetFinalizers()) > 0 || old.GetDeletionTimestamp() == nil {
		return false
	}
	if current.kind.GroupKind == namespaceKind {
		if finalizers, _, _ := unstructured.NestedSlice(u.Object, "spec", "finalizers"); len(finalizers) > 0 {
			return false
		}
	}
	grace := old.GetDeletionGracePeriodSeconds()
	return grace == nil || *grace == 0
}

// admitted calls Options.Admit with an object before it is stored. The object has its kind only during the call.
func (s *Store) admitted(k *kind, u *unstructured.Unstructured) {
	u.SetGroupVersionKind(k.first.gvk)
	s.admit(u)
	delete(u.Object, "apiVersion")
	delete(u.Object, "kind")
}

// admitNamespace rejects new objects in a namespace that is missing or terminating.
func (s *Store) admitNamespace(gr schema.GroupResource, namespace, name string) error {
	if namespace == "" {
		return nil
	}
	rec := s.registry.kinds[namespaceKind].get(types.NamespacedName{Name: namespace})
	if rec == nil {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, namespace)
	}
	if phase, _, _ := unstructured.NestedString(rec.content, "status", "phase"); phase != "Terminating" {
		return nil
	}
	err := apierrors.NewForbidden(gr, name, fmt.Errorf("unable to create new content in namespace %s because it is being terminated",
		namespace))
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
		Type: "NamespaceTerminating", Message: fmt.Sprintf("namespace %s is being terminated", namespace), Field: "metadata.namespace",
	})
	return err
}

func (s *Store) now() metav1.Time { return metav1.NewTime(s.clock.Now().UTC().Truncate(time.Second)) }

func (s *Store) newUID() types.UID {
	a, b := s.rand.Uint64(), s.rand.Uint64()
	return types.UID(fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x", a>>32, a>>16&0xffff, a&0xfff, b>>48&0x3fff|0x8000, b&0xffffffffffff))
}

// generateName appends five characters, as the server does, and shortens the base so that the result is a valid label value.
func (s *Store) generateName(base string) string {
	const letters = "bcdfghjklmnpqrstvwxz2456789"
	suffix := make([]byte, 5)
	for i := range suffix {
		suffix[i] = letters[s.rand.IntN(len(letters))]
	}
	return base[:min(len(base), 58)] + string(suffix)
}
