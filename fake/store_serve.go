package fake

import (
	"encoding/json"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	listvalidation "k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

func (s *Store) serve(req *http.Request, c *call) (*http.Response, error) {
	if c.Verb != "create" && !c.view.namespaced && c.Namespace != "" {
		return nil, apierrors.NewBadRequest("the kind has no namespace")
	}
	switch c.Verb {
	case "list":
		return s.serveList(req, c)
	case "watch":
		return s.serveWatch(req, c)
	case "get":
		if c.Subresource != "" && !(c.Subresource == "status" && c.view.status) {
			return nil, notServed()
		}
		s.mu.RLock()
		rec := c.view.get(c.key())
		s.mu.RUnlock()
		if rec == nil {
			return nil, apierrors.NewNotFound(c.groupResource(), c.Name)
		}
		return success(req, http.StatusOK, c.render(rec)), nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests.mu.Lock() // until the request is recorded, so that it is recorded before a watch reports the write
	defer s.requests.mu.Unlock()
	code, answer, err := s.write(c)
	resp := success(req, code, answer)
	if err != nil {
		resp = failure(req, err)
	}
	if !c.lost {
		c.Code, c.noted = resp.StatusCode, true
		s.requests.log = append(s.requests.log, c.Request)
	}
	return resp, nil
}

// listOptions parses and validates the options of a list or watch, with the server's defaults.
func (c *call) listOptions() (internalversion.ListOptions, error) {
	requested, o := metav1.ListOptions{}, internalversion.ListOptions{}
	err := metav1.Convert_url_Values_To_v1_ListOptions(&c.query, &requested, nil)
	if err == nil {
		err = internalversion.Convert_v1_ListOptions_To_internalversion_ListOptions(&requested, &o, nil)
	}
	if err != nil {
		return o, apierrors.NewBadRequest(err.Error())
	}
	o.Watch = c.Verb == "watch"
	internalversion.SetListOptionsDefaults(&o, true)
	if errs := listvalidation.ValidateListOptions(&o, true); len(errs) > 0 {
		return o, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, "", errs)
	}
	return o, nil
}

func (s *Store) serveList(req *http.Request, c *call) (*http.Response, error) {
	sel, err := c.selection()
	if err != nil {
		return nil, err
	}
	if c.query.Has("resourceVersionMatch") || c.query.Has("sendInitialEvents") { // other combinations are always valid
		if _, err := c.listOptions(); err != nil {
			return nil, err
		}
	}
	body, err := s.list(sel, c.query)
	return success(req, http.StatusOK, body), err
}

func (s *Store) serveWatch(req *http.Request, c *call) (*http.Response, error) {
	sel, err := c.selection()
	if err != nil {
		return nil, err
	}
	o, err := c.listOptions()
	if err != nil {
		return nil, err
	}
	body, err := s.watch(c.ctx, sel, o, c.lagged)
	if err != nil {
		return nil, err
	}
	resp := success(req, http.StatusOK, nil)
	resp.Body, resp.ContentLength = body, -1
	return resp, nil
}

// write performs a writing call. The caller holds the lock.
func (s *Store) write(c *call) (int, []byte, error) {
	switch {
	case s.registry.kinds[c.view.GroupKind] != c.view.kind: // unregistered since the request was parsed
		return 0, nil, notServed()
	case c.Verb == "create" && c.Subresource == "":
		content, err := decode(c.view, c.body)
		if err != nil {
			return 0, nil, err
		}
		return c.answer(http.StatusCreated)(s.create(c.view.kind, c.Namespace, content, c.DryRun))
	case c.Verb == "create":
		return s.writeSubresource(c)
	case c.Verb == "update" || c.Verb == "patch":
		return s.writeChange(c)
	case c.Verb == "delete" && c.Subresource == "":
		return s.writeDelete(c)
	case c.Verb == "deletecollection":
		return s.writeDeleteAll(c)
	}
	return 0, nil, notServed()
}

func (s *Store) writeSubresource(c *call) (int, []byte, error) {
	var status *metav1.Status
	err := notServed()
	if c.view.GroupKind == podKind && c.Subresource == "eviction" {
		status, err = s.evict(c.key(), c.body, c.DryRun)
	}
	if c.view.GroupKind == podKind && c.Subresource == "binding" {
		status, err = s.bind(c.key(), c.body, c.DryRun)
	}
	if err != nil {
		return 0, nil, err
	}
	return http.StatusCreated, encoded(*status), nil
}

// change returns the change of a call, without its apply function.
func (c *call) change() change {
	manager := c.query.Get("fieldManager")
	if manager == "" {
		manager, _, _ = strings.Cut(c.UserAgent, "/")
	}
	return change{kind: c.view.kind, view: c.view, key: c.key(), status: c.Subresource == "status", dryRun: c.DryRun, manager: manager}
}

func (c *call) patchOptions() (metav1.PatchOptions, error) {
	o := metav1.PatchOptions{}
	if c.PatchType != types.ApplyPatchType && len(c.query) == 0 {
		return o, nil // a patch that is not an apply
	}
	if err := metav1.Convert_url_Values_To_v1_PatchOptions(&c.query, &o, nil); err != nil {
		return o, apierrors.NewBadRequest("patch options cannot be read: " + err.Error())
	}
	if errs := validation.ValidatePatchOptions(&o, c.PatchType); len(errs) > 0 {
		return o, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "PatchOptions"}, "", errs)
	}
	return o, nil
}

func (s *Store) writeChange(c *call) (int, []byte, error) {
	ch := c.change()
	if c.Subresource != "" && !(ch.status && c.view.status) {
		return 0, nil, notServed()
	}
	var err error
	if c.Verb == "patch" {
		var o metav1.PatchOptions
		if o, err = c.patchOptions(); err != nil {
			return 0, nil, err
		}
		if c.PatchType == types.ApplyPatchType {
			return s.writeApply(c, o)
		}
		ch.apply, err = patcher(c.view, c.PatchType, c.body)
	} else {
		var content map[string]any
		content, err = decode(c.view, c.body)
		ch.apply = func(*record) (map[string]any, error) { return content, nil }
		if err == nil {
			ch.uid = (&unstructured.Unstructured{Object: content}).GetUID()
		}
	}
	if err != nil {
		return 0, nil, err
	}
	return c.answer(http.StatusOK)(s.update(ch))
}

func (c *call) deleteOptions() (metav1.DeleteOptions, error) {
	o := metav1.DeleteOptions{}
	var err error
	if len(c.body) > 0 {
		err = json.Unmarshal(c.body, &o)
	} else {
		err = metav1.Convert_url_Values_To_v1_DeleteOptions(&c.query, &o, nil)
	}
	if err != nil {
		return o, apierrors.NewBadRequest("delete options cannot be read: " + err.Error())
	}
	if errs := validation.ValidateDeleteOptions(&o); len(errs) > 0 {
		return o, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "DeleteOptions"}, "", errs)
	}
	return o, nil
}

func (s *Store) writeDelete(c *call) (int, []byte, error) {
	o, err := c.deleteOptions()
	if err != nil {
		return 0, nil, err
	}
	rec, gone, err := s.delete(c.view.kind, c.key(), o)
	if err != nil {
		return 0, nil, err
	}
	if !gone {
		return http.StatusOK, c.render(rec), nil
	}
	return http.StatusOK, encoded(metav1.Status{
		Status: metav1.StatusSuccess, Details: &metav1.StatusDetails{Name: c.Name, Group: c.view.Group, Kind: c.view.resource, UID: rec.uid},
	}), nil
}

func (s *Store) writeDeleteAll(c *call) (int, []byte, error) {
	o, err := c.deleteOptions()
	if err != nil {
		return 0, nil, err
	}
	sel, err := c.selection()
	if err != nil {
		return 0, nil, err
	}
	for _, rec := range s.records(sel) {
		if _, _, err := s.delete(rec.kind, rec.key, o); err != nil && !apierrors.IsNotFound(err) {
			return 0, nil, err
		}
	}
	return http.StatusOK, encoded(metav1.Status{Status: metav1.StatusSuccess}), nil
}

// answer returns a function that makes the response to a call that created or changed an object.
func (c *call) answer(code int) func(*record, error) (int, []byte, error) {
	return func(rec *record, err error) (int, []byte, error) {
		if err != nil {
			return 0, nil, err
		}
		return code, c.render(rec), nil
	}
}

func encoded(status metav1.Status) []byte {
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	body, _ := json.Marshal(status) // plain values
	return body
}

func (c *call) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: c.view.gvk.Group, Resource: c.view.resource}
}

func (c *call) render(rec *record) []byte {
	return (&selection{view: c.view, metadata: c.metadata}).render(rec)
}
