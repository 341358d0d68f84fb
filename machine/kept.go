package machine

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/noderef/nodeindex"
)

// EventWriteNotKept is the reason of an event that reports that the API server has accepted a write and does not store the written value,
// for example because a mutating webhook removes it. The condition Ready reports it too.
const EventWriteNotKept = "WriteNotKept"

const actionWrite = "Write"

// notKeptFacts are what an update wrote and the API server's answer.
type notKeptFacts struct {
	Update       contract.MachineUpdate
	Wanted, Have *contract.MachineState
	Finalizer    string
	// Whole: all of the update was written, and the pass ends so that it is stored before a later pass acts on a Node.
	Whole bool
}

// decideNotKept names the values that the API server did not store and that later passes depend on, empty when it stored all. Without this
// check, the next pass would make the same decisions and write them again, and when the write changed nothing, there would be no event and
// no next pass.
func decideNotKept(f notKeptFacts) string {
	lost := f.finalizer()
	if !f.Update.ProviderID.Keeps() && f.Have.ProviderID != f.Wanted.ProviderID {
		lost = append(lost, "the provider ID")
	}
	if !f.Update.DataSecretName.Keeps() && f.Have.DataSecretName != f.Wanted.DataSecretName {
		lost = append(lost, "the name of the data secret")
	}
	for key := range f.Update.Annotations {
		if f.Have.Annotations[key] != f.Wanted.Annotations[key] {
			lost = append(lost, "the annotation "+key)
		}
	}
	if f.Whole && !f.Update.Node.Keeps() && f.Have.Node != f.Wanted.Node {
		lost = append(lost, "the reference to the Node with its UID")
	}
	if f.Whole && !f.Update.DrainStarted.Keeps() && f.Have.DrainStarted.IsZero() {
		lost = append(lost, "when the drain began")
	}
	slices.Sort(lost)
	return strings.Join(lost, ", ")
}

// finalizer returns what the API server did not store of our finalizer.
func (f notKeptFacts) finalizer() []string {
	wanted, have := slices.Contains(f.Wanted.Finalizers, f.Finalizer), slices.Contains(f.Have.Finalizers, f.Finalizer)
	switch {
	case f.Update.Finalizers.Keeps() || wanted == have:
		return nil
	case wanted:
		return []string{"the finalizer " + f.Finalizer}
	}
	return []string{"the removal of the finalizer " + f.Finalizer}
}

// notKept returns what the API server did not store of this pass. A failed pass reports it too.
func (s *Scope) notKept() string {
	if s.Answer() == nil || s.failed {
		return ""
	}
	var have contract.MachineState
	if s.env.kind.Adapter.Read(s.Answer(), &have) != nil {
		return "" // the next pass reports it
	}
	what := decideNotKept(notKeptFacts{
		Update: s.Update, Wanted: &s.State, Have: &have, Finalizer: s.env.options.Finalizer, Whole: s.recordsFirst,
	})
	if what == "" {
		return ""
	}
	return fmt.Sprintf("the API server accepts and does not keep %s: look for a mutating webhook that changes %s objects",
		what, s.env.kind.GVK.Kind)
}

// checkKept delays the next pass and reports what the API server did not store of this one.
func (s *Scope) checkKept() error {
	text := s.notKept()
	first := s.env.memory.setNotKept(s.State.Key, s.State.UID, text)
	if text == "" {
		return nil
	}
	if first {
		s.Record(pass.Event{Kind: corev1.EventTypeWarning, Reason: EventWriteNotKept, Action: actionWrite, Note: text})
	}
	return fmt.Errorf("write %s %s: %s", s.env.kind.GVK.Kind, s.State.Key, text)
}

// notKeptWrite is what the API server did not store of a Machine, since when, and when that was last seen.
type notKeptWrite struct {
	machine     types.UID
	text        string
	since, last time.Time
}

// setNotKept remembers what was not stored; an empty text removes the entry. first is true when the text is new.
func (m *memory) setNotKept(key types.NamespacedName, machine types.UID, text string) (first bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.notKept[key]
	if text == "" {
		delete(m.notKept, key)
		return false
	}
	now := m.clock.Now()
	if first = known.machine != machine || known.text != text; first {
		known = notKeptWrite{machine: machine, text: text, since: now}
	}
	known.last = now
	m.notKept[key] = known
	return first
}

// notKeptOf returns what was not stored of a Machine, and the delay of its next pass: each one is twice as long as the one before, whatever
// events arrive.
func (m *memory) notKeptOf(key types.NamespacedName, machine types.UID) (text string, wait time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known, found := m.notKept[key]
	if !found || known.machine != machine {
		return "", 0
	}
	return known.text, attemptRetry(known.last.Sub(known.since)) - m.clock.Since(known.last)
}

// recordFirst ends a pass with values that must be stored before a later pass acts on the Node.
func (s *Scope) recordFirst(reason, message string) (Result, error) {
	if err := s.checkStored(); err != nil {
		return Result{}, err
	}
	s.recordsFirst = true
	s.Wait(reason, message)
	return Result{Checkpoint: true}, nil
}

// checkStored returns an error when the kind of the Machine has no field for a value that this pass must store: every later pass would
// begin at the same point and never get further.
func (s *Scope) checkStored() error {
	stored, ok := s.Object.DeepCopyObject().(contract.Object)
	if !ok {
		return fmt.Errorf("copy of %T is no object", s.Object)
	}
	if err := s.env.kind.Adapter.Write(stored, s.Update); err != nil {
		return err
	}
	var next contract.MachineState
	if err := s.env.kind.Adapter.Read(stored, &next); err != nil {
		return err
	}
	node := "its Node"
	if s.State.Node.Name != "" {
		node = "Node " + s.State.Node.Name
	}
	untouched := node + " is neither drained nor deleted"
	switch {
	case len(next.Finalizers) < len(s.State.Finalizers):
		return s.notStored("its finalizers", "nothing is made for it", "MachineState.Finalizers (Metadata.From, MetadataUpdate.ApplyTo)")
	case next.ProviderID == "" && s.State.ProviderID != "":
		return s.notStored("its provider ID", untouched, "MachineState.ProviderID")
	case next.Node.UID == "" && s.State.Node.UID != "":
		return s.notStored("the UID of its Node", untouched, "MachineState.Node.UID")
	case next.DrainStarted.IsZero() && !s.State.DrainStarted.IsZero():
		return s.notStored("when a drain began", untouched,
			"MachineState.DrainStarted, for instance in annotations (StagesFromAnnotations, StagesInAnnotations)")
	}
	return nil
}

// checkProviderIDStored drops a provider ID that the kind of the Machine has no field for: the Node that matches it would never be drained.
func (s *Scope) checkProviderIDStored(before string) error {
	err := s.checkStored()
	if err != nil {
		s.State.ProviderID, s.Update.ProviderID = before, contract.Change[string]{}
	}
	return err
}

// validateKind reports which values that a Reconciler needs a kind does not store. A kind that rejects an empty object cannot be checked
// here; passes detect what it does not store.
func validateKind(kind contract.Kind, o Options) error {
	missing, err := contract.CheckKind(kind)
	if err != nil {
		return nil //nolint:nilerr // a real object may have the content that this one lacks
	}
	ofNode := pass.Position(o.Steps, StepDrain, pass.InDeletion) >= 0 || pass.Position(o.Steps, StepDeleteNode, pass.InDeletion) >= 0
	var errs []error
	for _, f := range missing {
		needed := f.Need == contract.NeedMust
		switch f.Member {
		case "Node.Name", "Node.UID", "DrainStarted":
			needed = ofNode
		case "ProviderID":
			needed = pass.HasStandard(o.Steps, StepInfrastructure)
		case "DataSecretName":
			needed = pass.HasStandard(o.Steps, StepBootstrap)
		case "PreDrainStarted", "VolumeDetachStarted", "PreTerminateStarted":
			needed = o.Policy.Limits != nil
		}
		if needed {
			errs = append(errs, errors.New(f.String()))
		}
	}
	return errors.Join(errs...)
}

func (s *Scope) notStored(what, so, place string) error {
	kind := s.env.kind.GVK.Kind
	return fmt.Errorf("%s %s does not keep %s, so %s: have the contract.Kind of %s write and read %s",
		kind, s.State.Key, what, so, kind, place)
}

// TextSharer is implemented by Go types to name the texts that many of their objects have in common, for TrimObjects.
type TextSharer interface {
	// ShareTexts replaces texts of the object with the equal texts that share returns.
	ShareTexts(share func(string) string)
}

// TrimObjects returns a transform for a whole cache (cache.Options.DefaultTransform) that reduces its memory: it removes managedFields,
// trims Nodes as [nodeindex.TrimNode] does, and stores texts that all objects of a kind have in common, such as the names of fields and
// the reasons of conditions, once and not for each object; of other Go types, those that they name as a TextSharer. What a Reconciler
// reads stays unchanged. Use a separate one for each cache; its table of texts is bounded. It changes objects in place, as transforms may,
// never fails, and is safe for concurrent use.
func TrimObjects() toolscache.TransformFunc { return trimming(nodeindex.TrimNode) }

// TrimUnread is TrimObjects with [nodeindex.LeanNode], for a cache that only Reconcilers of this module read.
func TrimUnread() toolscache.TransformFunc { return trimming(nodeindex.LeanNode) }

func trimming(node toolscache.TransformFunc) toolscache.TransformFunc {
	t := &texts{known: map[string]string{}}
	return func(obj any) (any, error) {
		switch o := obj.(type) {
		case *unstructured.Unstructured:
			if metadata, ok := o.Object["metadata"].(map[string]any); ok {
				delete(metadata, "managedFields")
			}
			t.shareMap(o.Object)
		case *corev1.Node:
			t.shareNode(o)
			return node(obj)
		default:
			if object, err := meta.Accessor(obj); err == nil && len(object.GetManagedFields()) > 0 {
				object.SetManagedFields(nil)
			}
			if object, ok := obj.(TextSharer); ok {
				object.ShareTexts(t.share)
			}
		}
		return obj, nil
	}
}

// texts stores equal texts once. Only texts whose number does not grow with the number of objects belong here.
type texts struct {
	mu    sync.RWMutex
	known map[string]string
}

// Bounds of the table: providers may have many and long texts.
const (
	maxTexts      = 4096
	maxTextLength = 256
)

// share returns an equal text, the same one each time.
func (t *texts) share(text string) string {
	if text == "" || len(text) > maxTextLength {
		return text
	}
	t.mu.RLock()
	known, found := t.known[text]
	full := len(t.known) >= maxTexts
	t.mu.RUnlock()
	if found || full {
		return cmp.Or(known, text)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	known = strings.Clone(text) // it may be a substring of a large text
	t.known[known] = known
	return known
}

// shareMap shares the names of all fields, and the values of those that have few. An assignment replaces the text of a key too.
func (t *texts) shareMap(m map[string]any) {
	for key, value := range m {
		switch v := value.(type) {
		case map[string]any:
			t.shareMap(v)
		case []any:
			t.shareList(v)
		case string:
			if hasFewValues(key) {
				value = t.share(v)
			}
		}
		m[t.share(key)] = value
	}
}

func (t *texts) shareList(list []any) {
	for _, item := range list {
		if m, ok := item.(map[string]any); ok {
			t.shareMap(m)
		}
	}
}

// hasFewValues reports whether many objects have the same values in a field.
func hasFewValues(field string) bool {
	switch field {
	case "apiVersion", "kind", "apiGroup", "namespace", "clusterName", "version", "type", "status", "reason", "phase", "effect":
		return true
	}
	return false
}

// shareNode shares the texts that the Nodes of a fleet have in common.
func (t *texts) shareNode(node *corev1.Node) {
	info := &node.Status.NodeInfo
	for _, text := range []*string{
		&info.KernelVersion, &info.OSImage, &info.ContainerRuntimeVersion, &info.KubeletVersion,
		&info.KubeProxyVersion, &info.OperatingSystem, &info.Architecture, //nolint:staticcheck // each value is shared
	} {
		*text = t.share(*text)
	}
	for i := range node.Status.Conditions {
		c := &node.Status.Conditions[i]
		c.Type, c.Status = corev1.NodeConditionType(t.share(string(c.Type))), corev1.ConditionStatus(t.share(string(c.Status)))
		c.Reason, c.Message = t.share(c.Reason), t.share(c.Message)
	}
	for _, m := range []map[string]string{node.Labels, node.Annotations} {
		for key, value := range m {
			m[t.share(key)] = value
		}
	}
}
