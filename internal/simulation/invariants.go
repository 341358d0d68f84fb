package simulation

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloud "github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/machineset/rollout"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// Names of the invariants about what an owner cannot or must not do.
const (
	PausedStays     = "no Machine is replaced while it is paused"
	KeepsForBlocked = "no available Machine goes for a set that cannot create"
	KeepsForCluster = "nothing is created, deleted or released while the cluster of an owner is another one"
)

// Write is one write that the API server has carried out. The objects must not be changed.
type Write struct {
	// Before is nil for a creation. After is the last state of an object that was removed.
	Before, After *unstructured.Unstructured
	Removed       bool

	cluster *workloadCluster
}

// Invariant is what must hold in every history.
type Invariant struct {
	// Name is a sentence.
	Name string
	// AfterWrite is called after each write, and AtEnd when everything is deleted. Each may be nil. It must not use the store.
	AfterWrite func(*World, Write) error
	AtEnd      func(*World) error
}

// Invariants returns those that every history of this package is checked for. Run itself checks Reached and Silent, DrainsFirst before
// each call that deletes an instance, and before each that makes one that its Machine was kept.
func Invariants() []Invariant {
	return append([]Invariant{
		{Name: KeepsForCluster, AfterWrite: keepsForCluster},
		{Name: "there are never two Machines for one slot", AfterWrite: oneForEachSlot},
		{Name: "the ledger of a set continues behind the slots of its Machines", AfterWrite: ledgerIsBehind},
		{Name: "a Machine never has two instances", AfterWrite: oneInstance},
		{Name: "there are never more Machines than were ever wanted and surge", AfterWrite: notTooMany},
		{Name: "a rollout keeps as many Machines available as its strategy requires", AfterWrite: floor},
		{Name: "a Machine of another owner is never deleted", AfterWrite: foreignStays},
		{Name: "a Machine goes only after its instance", AfterWrite: instanceFirst},
		{Name: "a Pod is evicted only from the Node of a Machine that is being deleted", AfterWrite: evictsOwnPods},
		{Name: DrainsFirst, AfterWrite: drainEnds},
		{Name: "no eviction leaves fewer healthy Pods than their budget requires", AfterWrite: keepsBudgets},
		{Name: "nothing is left at the end", AtEnd: nothingLeft},
		{Name: "objects of a cache are never changed", AtEnd: cacheUnchanged},
		{Name: "a Machine gives its instance up only after several looks", AfterWrite: looksAgain},
		{Name: "a Machine never takes the instance of another one", AfterWrite: ownInstance},
		{Name: "a Machine and its infrastructure object are made from one template", AfterWrite: madeOfOneTemplate},
		{Name: PausedStays, AfterWrite: pausedStays}, {Name: KeepsForBlocked, AfterWrite: keepsForBlocked},
		{Name: truthPrefix + "what waits for a person names what the person can do", AfterWrite: advises},
		{Name: truthPrefix + "a deletion is completed when nothing is left", AfterWrite: completes},
		{Name: truthPrefix + "ScalingUp names the refusal that stops it", AfterWrite: namesRefusal},
	}, slices.Concat(healthInvariants(), poolInvariants(), clusterInvariants())...)
}

func ownedBySet(m *unstructured.Unstructured) bool {
	owner := metav1.GetControllerOf(m)
	return owner != nil && owner.Kind == "MachineSet"
}

func oneForEachSlot(w *World, _ Write) error {
	seen := map[string]string{}
	for _, m := range w.Objects("Machine") {
		slot := m.GetAnnotations()[scale.StampAnnotation]
		if slot == "" || isMisplaced(m) { // somebody has taken it away
			continue
		}
		if other := seen[slot]; other != "" {
			return fmt.Errorf("%s and %s are for the slot %s", other, m.GetName(), slot)
		}
		seen[slot] = m.GetName()
	}
	return nil
}

// ledgerIsBehind holds for what a manager writes; a restored backup may have an earlier ledger.
func ledgerIsBehind(w *World, e Write) error {
	text := e.After.GetAnnotations()[scale.LedgerAnnotation]
	if e.Removed || w.acting == nil || w.backups.restored || e.After.GetKind() != "MachineSet" || text == "" ||
		e.Before != nil && e.Before.GetAnnotations()[scale.LedgerAnnotation] == text { // people may have written an old one
		return nil
	}
	ledger, err := scale.ParseLedger(text)
	for _, m := range w.owned() {
		if stamp := scale.ReadStamp(m.GetAnnotations()); stamp.Set == e.After.GetUID() && stamp.Slot >= ledger.Next {
			return fmt.Errorf("the ledger of %s continues with %d, and %s has slot %d", e.After.GetName(), ledger.Next, m.GetName(), stamp.Slot)
		}
	}
	return err
}

// oneInstance counts those that were ever made, and those that run where another one may be made once the first is gone: a backup was
// restored that lacks it, or the cloud has lost it.
func oneInstance(w *World, _ Write) error {
	alive := map[string]int{}
	anew := w.backups.restored || w.had(CloudLoses) || w.habits.of("").stray
	if anew {
		for _, i := range w.instances() {
			if i.State != cloud.Deleting {
				alive[i.Token]++
			}
		}
	}
	for _, m := range w.ours() {
		token := string(m.GetUID())
		n, taken := w.cloud.Made(token), w.taken[token]
		if w.provided != nil && taken { // by the provider of the World
			n--
		}
		if anew {
			n = alive[token]
		}
		if n > 1 {
			return fmt.Errorf("%s has %d", m.GetName(), n)
		}
	}
	return nil
}

// notTooMany holds unless a person has removed the ledger of a set and deleted the set: then its Machines are those in its status,
// and a cache may have yet to show the last of them. A set that is deleted again, while it orphans its Machines, goes at once and before
// them, as a ReplicaSet does. A set that is created after a backup was restored, by a late request or by a pass that began before, is one
// that the restored ledger lacks.
func notTooMany(w *World, e Write) error {
	o := w.ownerOf(e.After)
	if o == nil {
		return nil
	}
	if w.acting != nil && e.After.GetKind() == "MachineSet" && replicasIn(e.After) > replicasIn(e.Before) {
		o.unknownAt[e.After.GetUID()] = o.unknown(e.After.GetUID())
	}
	underWay := w.crosses(e)
	byHand := w.had(UserStrips) && w.had(UserDeletesSet) || w.backups.crossed
	if byHand || underWay || o.again || e.Before != nil || e.After.GetKind() != "Machine" || !ownedBySet(e.After) {
		return nil
	}
	set := metav1.GetControllerOf(e.After).UID
	n := len(slices.DeleteFunc(slices.DeleteFunc(o.owned(), w.isCollected), w.isFreed)) - max(o.unknown(set), o.unknownAt[set])
	surge, _ := o.bounds(o.most)
	if most := o.most + surge; n > most {
		return fmt.Errorf("%s is number %d, and there should never be more than %d", e.After.GetName(), n, most)
	}
	return nil
}

// isCollected reports whether a Machine is being deleted whose set a restored backup lacks: no plan counts the Machines that a pass has
// created for it meanwhile.
func (w *World) isCollected(m *unstructured.Unstructured) bool {
	owner := metav1.GetControllerOf(m)
	set := w.object("MachineSet", m.GetNamespace(), owner.Name)
	return w.backups.restored && m.GetDeletionTimestamp() != nil && (set == nil || set.GetUID() != owner.UID)
}

// floor holds for what a rollout does: a person who scales or deletes can break any bound. A plan is judged by what was available when it
// lowered the replicas of a set: the set may be paused, and carry that out when Machines have failed, have been replaced or have recovered.
func floor(w *World, e Write) error {
	o := w.ownerOf(e.After)
	if o == nil || !o.deploys() || o.strategy != rollout.RollingUpdate || e.Before == nil {
		return nil
	}
	if lowers(e) {
		o.noteAvailable(e.After.GetUID())
	}
	if w.acting == nil {
		return nil
	}
	if isReplaced(w, e) {
		o.replaced = append(o.replaced, e.After.GetUID())
		return nil
	}
	byHand := w.had(UserDeletes, UserScales, UserDeletesSet)
	if byHand || o.leaves() || w.isFreed(e.After) || !deletesAvailable(e) {
		return nil
	}
	planned := o.availableAt[metav1.GetControllerOf(e.After).UID]
	if available, known := planned[e.After.GetUID()]; known && available < 2 {
		return nil
	}
	return o.keepsFloor(e.After, planned)
}

// leavesByMark reports whether a Machine goes because there are too many, and others have marked it: cluster-autoscaler has emptied its
// Node, and lowers the replicas. A scale-down does not look at what the others are. Those that a rollout has made beyond are not too many.
func (o *owner) leavesByMark(m *unstructured.Unstructured) bool {
	mark, marked := m.GetAnnotations()[scale.DeleteAnnotation]
	alive, sets := 1, map[types.UID]bool{metav1.GetControllerOf(m).UID: true}
	for _, other := range o.owned() {
		if other.GetDeletionTimestamp() == nil && other.GetUID() != m.GetUID() {
			alive++
			sets[metav1.GetControllerOf(other).UID] = true
		}
	}
	surge, _ := o.bounds(o.desired())
	if len(sets) == 1 {
		surge = 0
	}
	return marked && !strings.HasPrefix(mark, "MachineDeployment/") && alive > o.desired()+surge
}

// deletesAvailable reports whether a write requests the deletion of an available Machine of a set.
func deletesAvailable(e Write) bool {
	return e.After.GetKind() == "Machine" && isAvailable(e.Before) && e.After.GetDeletionTimestamp() != nil && ownedBySet(e.After)
}

// keepsFloor returns an error if too few Machines stay that are available, or were when the deletion of one was planned.
func (o *owner) keepsFloor(deleted *unstructured.Unstructured, planned map[types.UID]int) error {
	left := 0
	for _, m := range o.owned() {
		if isAvailable(m) || m.GetDeletionTimestamp() == nil && planned[m.GetUID()] > 0 {
			left++
		}
	}
	for uid, places := range planned {
		if places > 0 && slices.Contains(o.replaced, uid) {
			left++
		}
	}
	if least := o.floor(); left < least {
		return fmt.Errorf("%s is deleted, and %d available Machines are left of at least %d", deleted.GetName(), left, least)
	}
	return nil
}

// floor is how many Machines of the owner stay available in a rollout.
func (o *owner) floor() int {
	_, unavailable := o.bounds(o.least)
	return o.least - unavailable
}

// lowers reports whether a write lowers the replicas of a set.
func lowers(e Write) bool {
	return e.After.GetKind() == "MachineSet" && replicasIn(e.After) < replicasIn(e.Before)
}

// noteAvailable keeps what was available as a process planned to lower the replicas of a set: when it sent the request.
func (o *owner) noteAvailable(set types.UID) {
	at := o.world.sentAt
	if at == nil && o.world.acting != nil {
		at = o.world.available(o.world.acting)
	}
	if at != nil {
		o.availableAt[set] = at
	}
}

// available returns in how many places Machines of deployments are available: the API server and the cache of a process. One that is to go,
// whatever the others are, is so in none.
func (w *World) available(p *process) map[types.UID]int {
	at, shown := map[types.UID]int{}, p.view.shown("Machine")
	for _, m := range w.owned() {
		o := w.ownerOf(m)
		if o == nil || !o.deploys() {
			continue
		}
		if at[m.GetUID()] = 0; o.leavesByMark(m) {
			continue
		}
		for _, one := range []*unstructured.Unstructured{m, shown[client.ObjectKeyFromObject(m)]} {
			if one != nil && one.GetUID() == m.GetUID() && isAvailable(one) {
				at[m.GetUID()]++
			}
		}
	}
	return at
}

func foreignStays(w *World, e Write) error {
	is := e.After.GetName() == ForeignName && !isMisplaced(e.After) && e.After.GetKind() == "Machine"
	if is && e.After.GetDeletionTimestamp() != nil && !w.ending {
		return fmt.Errorf("%s is being deleted", ForeignName)
	}
	return nil
}

// instanceFirst: a Machine goes with its last finalizer, but for that of the garbage collector, which may stay for longer. An instance
// that the cloud has reported as gone, and a second one that is not recorded, are a Collector's. So is that of a Machine, or of an
// infrastructure object with a provider, that a backup has brought back as it was before its finalizer was stored.
func instanceFirst(w *World, e Write) error {
	held := isHeld(e.Before)
	if !e.Removed && (!held || isHeld(e.After)) || w.isRemovedUnheld(e) || w.writers.released[e.After.GetUID()] {
		return nil
	}
	for _, i := range w.instances() {
		if w.isOwn(e.After, i) && i.State != cloud.Deleting && !w.habits.isLeft(e.After, i) {
			return fmt.Errorf("%s is gone, and its instance %s is %s", e.After.GetName(), i.ProviderID, i.State)
		}
	}
	return nil
}

// isRemovedUnheld reports whether an object is removed that a backup has brought back without a finalizer, or whose infrastructure object
// was.
func (w *World) isRemovedUnheld(e Write) bool {
	unheld := e.Removed && w.backups.restored && e.Before != nil && !isHeld(e.Before)
	if w.provided == nil {
		return unheld
	}
	if unheld && e.After.GetKind() == partGVK().Kind {
		w.provided.unheld[e.After.GetName()] = true
	}
	return unheld || w.provided.unheld[e.After.GetName()]
}

// isHeld reports whether an object has a finalizer of a controller, and not only that of the garbage collector; false without an object.
func isHeld(obj *unstructured.Unstructured) bool {
	return obj != nil && slices.ContainsFunc(obj.GetFinalizers(), func(f string) bool {
		return f != metav1.FinalizerDeleteDependents && f != metav1.FinalizerOrphanDependents && f != guestFinalizer
	})
}

// original is what an object was when the API server published it.
type original struct{ published, copied *unstructured.Unstructured }

// cacheUnchanged compares what caches share with what was published, in the histories that keep it.
func cacheUnchanged(w *World) error {
	for _, o := range w.originals {
		for _, field := range slices.Sorted(maps.Keys(o.copied.Object)) {
			if is, was := o.published.Object[field], o.copied.Object[field]; !reflect.DeepEqual(is, was) {
				return fmt.Errorf("%s of %s %s was %v and became %v", field, o.copied.GetKind(), o.copied.GetName(), was, is)
			}
		}
	}
	return nil
}

func nothingLeft(w *World) error {
	for _, obj := range slices.Concat(w.ours(), w.Objects("Node"), w.Objects("Pod"), w.Objects("Secret")) {
		return fmt.Errorf("%s %s is left", obj.GetKind(), obj.GetName())
	}
	for _, i := range w.instances() {
		return fmt.Errorf("the instance %s is left", i.ProviderID)
	}
	return nil
}

// pausedStays is about Machines that were paused already when the pass began, and are not any more in the cache of the process either.
func pausedStays(w *World, e Write) error {
	if isReplaced(w, e) && isPaused(e.Before) {
		return fmt.Errorf("%s is deleted", e.After.GetName())
	}
	return nil
}

// keepsForBlocked is about Recreate; a rolling update keeps what its bounds require whatever blocks it. Machines of a set in deletion are
// deleted with it: a person has deleted that, since no process deletes one with available Machines.
func keepsForBlocked(w *World, e Write) error {
	o := w.ownerOf(e.After)
	concerns := o != nil && o.blocked && o.strategy == rollout.Recreate && !o.leaves() && !w.backups.restored
	if w.acting == nil || !concerns || e.Before == nil || len(o.owned()) > o.desired() { // it is scaled down
		return nil
	}
	set := w.controllerOf(e.Before, "MachineSet")
	ends := e.After.GetKind() == "MachineSet" && isDeletion(e) && len(w.machinesOf(e.After, availability)) > 0
	if !ends && (!deletesAvailable(e) || set != nil && set.GetDeletionTimestamp() != nil) {
		return nil
	}
	return fmt.Errorf("%s is deleted, and the template %s does not exist", e.After.GetName(), o.templateName(o.revision))
}

// keepsForCluster is about what the passes over an owner and its sets do; those over a Machine in deletion go on.
func keepsForCluster(w *World, e Write) error {
	o := w.ownerOf(e.After)
	if w.acting == nil || w.acting.controller == "machine" || o == nil || !o.elsewhere || o.leaves() || e.After.GetKind() != "Machine" ||
		w.isFreed(e.After) {
		return nil
	}
	isRight := func(m *unstructured.Unstructured) bool {
		return textAt(m, "spec", "clusterName") == w.clusterOf(o.namespace).name
	}
	made := e.Before == nil && !isRight(e.After) && slices.ContainsFunc(o.owned(), isRight)
	released := e.Before != nil && metav1.GetControllerOf(e.Before) != nil && metav1.GetControllerOf(e.After) == nil
	if made || released {
		return fmt.Errorf("%s is created: %t, and released: %t", e.After.GetName(), made, released)
	}
	return nil
}
