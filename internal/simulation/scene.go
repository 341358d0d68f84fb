package simulation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
)

// RootName is the name of the MachineSet or the MachineDeployment, and ForeignName that of a Machine that its labels select and that has
// another owner.
const (
	RootName    = "workers"
	ForeignName = "foreign"
)

// revisionLabel of a template and its Machines is the last revision: a deployment changes labels in place, also those of its old sets.
const revisionLabel = "example.com/revision"

// scene is what the users want.
type scene struct {
	// kind is that of the root: MachineSet or MachineDeployment.
	kind string
	// surge and unavailable are those of a rolling update.
	surge, unavailable int
	// revision is the last one that a user asked for.
	revision int
	// most and least are what the root ever wanted.
	most, least int
	// again: a person has deleted a set again that was to orphan its Machines.
	again bool
	// availableAt says, by set, in how many places a Machine was available when a manager last lowered the replicas of the set.
	availableAt map[types.UID]map[types.UID]int
	// sentAt says the same of when a request was sent that arrives late, while it arrives.
	sentAt map[types.UID]int
	// replaced are the Machines that were deleted because a health check has marked them.
	replaced []types.UID
	// unknownAt says how many Machines of other sets were unknown when a manager last raised the replicas of one.
	unknownAt map[types.UID]int
}

// populate creates the root, and a Machine of another owner.
func (w *World) populate(ctx context.Context) error {
	if w.pool != nil {
		return w.createPool(ctx)
	}
	s := scene{kind: "MachineSet", least: 3}
	template := map[string]any{"clusterName": "c1", "version": "v1.36.0"}
	if a := w.apps; a != nil && a.limit > 0 {
		template["deletion"] = map[string]any{"nodeDrainTimeoutSeconds": int64(a.limit / time.Second)}
	}
	if w.choices.pick(3) == 0 {
		template["minReadySeconds"] = int64(20)
	}
	if w.parts {
		template["infrastructureRef"] = partsRef(0)
	}
	if w.provided != nil {
		template["bootstrap"] = map[string]any{"configRef": configsRef(0)}
	}
	root := map[string]any{
		"clusterName": "c1", "replicas": int64(3),
		"selector": map[string]any{"matchLabels": map[string]any{"pool": RootName}},
		"template": map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"pool": RootName, revisionLabel: "0"}},
			"spec":     template,
		},
	}
	if w.choices.pick(2) == 1 {
		s.kind = "MachineDeployment"
		s.surge, s.unavailable = w.drawBounds()
		root["rollout"] = map[string]any{"strategy": map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{
			"maxSurge": int64(s.surge), "maxUnavailable": int64(s.unavailable),
		}}}
	}
	w.scene = s
	obj := named(s.kind)
	obj.Object["spec"] = root
	foreign := fake.Machine(ForeignName, fake.WithLabels(map[string]string{"pool": RootName}))
	unstructured.RemoveNestedField(foreign.Object, "spec", "infrastructureRef")
	unstructured.RemoveNestedField(foreign.Object, "spec", "bootstrap", "configRef")
	foreign.Object["metadata"].(map[string]any)["ownerReferences"] = []any{map[string]any{ //nolint:forcetypeassert // it was made above
		"apiVersion": "example.com/v1", "kind": "Fleet", "name": "other", "uid": "other-uid", "controller": true,
	}}
	return errors.Join(w.addPartTemplate(ctx, 0), w.store.Client().Create(ctx, obj), w.store.Client().Create(ctx, foreign), w.deploy(ctx),
		w.addChecks(ctx))
}

// drawBounds returns maxSurge and maxUnavailable.
func (w *World) drawBounds() (surge, unavailable int) {
	of := [][2]int{{1, 0}, {0, 1}, {1, 1}, {2, 0}, {0, 2}}[w.choices.pick(5)]
	return of[0], of[1]
}

// named returns an object of a kind with the name of the root.
func named(kind string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	obj.SetGroupVersionKind(kindOf(kind))
	obj.SetNamespace(namespace)
	obj.SetName(RootName)
	return obj
}

// root returns the root as the API server has it; nil without.
func (w *World) root() *unstructured.Unstructured {
	return w.object(w.scene.kind, namespace, RootName)
}

// desired is how many Machines the root wants; 0 without a root.
func (w *World) desired() int {
	root := w.root()
	if root == nil || root.GetDeletionTimestamp() != nil {
		return 0
	}
	n, _, _ := unstructured.NestedInt64(root.Object, "spec", "replicas")
	return int(n)
}

// versionOf returns the version of a Machine or of a template, which only a rollout changes: the revision label changes in place.
func versionOf(obj *unstructured.Unstructured, path ...string) string {
	text, _, _ := unstructured.NestedString(obj.Object, append(path, "spec", "version")...)
	return text
}

// owned are the Machines of sets.
func (w *World) owned() []*unstructured.Unstructured {
	var all []*unstructured.Unstructured
	for _, m := range w.Objects("Machine") {
		if ownedBySet(m) {
			all = append(all, m)
		}
	}
	return all
}

// isAvailable reports whether a Machine counts as available, and is not being deleted.
func isAvailable(m *unstructured.Unstructured) bool {
	return m.GetDeletionTimestamp() == nil && says(m, contract.ConditionAvailable)
}

// says reports whether a condition is true.
func says(obj *unstructured.Unstructured, condition string) bool {
	conditions, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "status", "conditions")
	all, _ := conditions.([]any)
	return slices.ContainsFunc(all, func(one any) bool {
		c, _ := one.(map[string]any)
		return c["type"] == condition && c["status"] == "True"
	})
}

// missing says what is not as desired.
func (w *World) missing(ctx context.Context) string {
	w.confirmRestored(ctx)
	w.relent(ctx)
	w.helps(ctx)
	if w.pool != nil {
		return w.missingOfPool()
	}
	root, owned := w.root(), w.owned()
	for _, m := range owned {
		if !isAvailable(m) {
			phase, _, _ := unstructured.NestedString(m.Object, "status", "phase")
			return fmt.Sprintf("Machine %s is %s: %s", m.GetName(), phase, messages(m))
		}
		if want := versionOf(root, "spec", "template"); w.scene.kind == "MachineDeployment" && versionOf(m) != want {
			return fmt.Sprintf("Machine %s has the version %s, and not %s: %s", m.GetName(), versionOf(m), want, w.said())
		}
	}
	if len(owned) != w.desired() {
		return fmt.Sprintf("%d Machines are Running of %d: %s", len(owned), w.desired(), w.said())
	}
	for _, m := range w.Objects("Machine") { // one that its set has orphaned may still be drained
		if m.GetDeletionTimestamp() != nil {
			return fmt.Sprintf("Machine %s is being deleted: %s", m.GetName(), messages(m))
		}
	}
	return cmp.Or(w.unwell(), w.leaks())
}

// messages returns what an object says in its conditions.
func messages(obj *unstructured.Unstructured) string {
	conditions, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "status", "conditions")
	all, _ := conditions.([]any)
	var text []string
	for _, one := range all {
		if c, _ := one.(map[string]any); c["message"] != nil && c["message"] != "" {
			text = append(text, fmt.Sprintf("%s %s: %v", obj.GetName(), c["type"], c["message"]))
		}
	}
	return strings.Join(text, "; ")
}

func (w *World) said() string {
	var text []string
	for _, obj := range append(w.Objects("MachineDeployment"), w.Objects("MachineSet")...) {
		if m := messages(obj); m != "" {
			text = append(text, m)
		}
	}
	return strings.Join(text, "\n")
}
