package machineset

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// RestoredAnnotation of a set that waits for its Machines since it was restored from a backup, with the set's UID as the value, says that
// no more of them come: the set creates what is missing. It means nothing to any other set, also when it is restored with one.
const RestoredAnnotation = "machinist.dev/restored"

// Reasons of holds that Cluster API does not know. They are those of the condition ScalingUp too.
const (
	// ReasonLedgerUnreadable: the ledger cannot be read.
	ReasonLedgerUnreadable = "LedgerUnreadable"
	// ReasonMachinesNotShown: the API server has Machines of the set that the cache does not show.
	ReasonMachinesNotShown = "MachinesNotShown"
	// ReasonMachinesNotRestored: the set had Machines before it was restored, and they do not exist.
	ReasonMachinesNotRestored = "MachinesNotRestored"
)

// askAgain is the interval of requests to the API server for Machines that the cache leaves out. The cause does not end without a change.
const askAgain = time.Minute

// readLedger reads the ledger. When the caches are too old to decide on, the pass waits.
func (s *Scope) readLedger(ctx context.Context) (scale.Ledger, error) {
	highest, facts := int64(0), scale.RecoveryFacts{Had: s.State.ObservedReplicas.Or(0) > 0}
	machines := make([]scale.Machine, 0, len(s.candidates))
	for _, m := range s.candidates {
		machines = append(machines, scale.Of(m.state, s.State.UID))
		highest = max(highest, machines[len(machines)-1].Slot)
		if owner := controllerOf(m.state.OwnerReferences); owner != nil && owner.UID == s.State.UID {
			facts.Own++
		}
	}
	text, found := s.State.Annotations[scale.LedgerAnnotation]
	ledger, err := scale.ParseLedger(text)
	switch {
	case found && err != nil:
		s.Hold(ReasonLedgerUnreadable, fmt.Sprintf("annotation %s: %v: correct it, or remove it", scale.LedgerAnnotation, err))
		return scale.Rebuilt(s.State.UID, highest), nil
	case !found || !ledger.IsOf(s.State.UID):
		facts.Foreign = found && ledger.Next > 1
		return s.recoverLedger(ctx, facts, highest)
	case ledger.Behind(machines):
		return s.recoverLedger(ctx, scale.RecoveryFacts{Own: len(machines)}, highest)
	}
	s.covers(ledger)
	return ledger, nil
}

// covers makes the pass wait for a cache that does not show yet what was created. A cache that cannot say what it has seen has seen at
// least its youngest Machine. Where that is not enough, and when the wait lasts, the API server is asked before anything is created, once
// for a ledger.
func (s *Scope) covers(ledger scale.Ledger) {
	exact := s.seen != ""
	if !exact {
		s.seen = s.youngest()
	}
	covers, err := ledger.Covers(s.seen)
	switch {
	case err == nil && covers:
		s.mem.caughtUp()
	case err == nil && exact && s.mem.missingFor(s.Now) < scale.CacheLimit:
		s.wait()
	default:
		s.unsure = exact || s.mem.through != ledger.Through
	}
}

// youngest is the latest resource version among the candidates.
func (s *Scope) youngest() string {
	latest := ""
	for _, m := range s.candidates {
		version := m.obj.GetResourceVersion()
		if order, err := resourceversion.CompareResourceVersion(version, latest); err != nil || order > 0 {
			latest = version
		}
	}
	return latest
}

// recoverLedger returns the ledger of a set without a usable one of its own. A lost ledger is written again before anything is decided:
// that fails when the read of the set is stale. Another client may have removed the annotation, or restored an earlier one with a manifest.
func (s *Scope) recoverLedger(ctx context.Context, facts scale.RecoveryFacts, highest int64) (scale.Ledger, error) {
	recovery, ledger := scale.Recover(facts), scale.Rebuilt(s.State.UID, highest)
	if recovery == scale.Begin || !s.State.Deleting.IsZero() {
		s.unsure = true
		if highest == 0 {
			ledger = scale.NewLedger()
		}
		return ledger, nil
	}
	live, err := s.liveSet(ctx)
	if err != nil {
		return scale.Ledger{}, err
	}
	text, found := s.State.Annotations[scale.LedgerAnnotation]
	if now, there := live.GetAnnotations()[scale.LedgerAnnotation]; there != found || now != text {
		s.wait()
		return scale.Ledger{}, nil
	}
	s.unsure = true
	if shows, err := s.cacheShowsAll(ctx, ""); err != nil || !shows {
		return ledger, err
	}
	s.unsure, ledger.Restoring = false, recovery == scale.Restore
	return ledger, s.writeLedger(ctx, scale.Ledger{}, ledger)
}

// beginLedger writes the ledger of a set that has adopted Machines without creating any, before its status counts them: a set whose status
// counts Machines, and that has neither Machines nor a ledger, is treated as a restored one.
func (s *Scope) beginLedger(ctx context.Context, ledger scale.Ledger) (scale.Ledger, error) {
	_, found := s.State.Annotations[scale.LedgerAnnotation]
	if len(s.observed) == 0 || (found && ledger.Set != "") || !s.State.Deleting.IsZero() || s.held(ReasonMachinesNotShown) {
		return ledger, nil
	}
	ledger.Set = s.State.UID
	return ledger, s.writeLedger(ctx, scale.Ledger{}, ledger)
}

// cacheShowsAll asks the API server itself, before something is created, whether it has Machines of the set, or for it to adopt, that the
// cache does not show: a cache may be behind, or leave them out. It is asked once, and again when one is missing. Otherwise the pass
// waits, or the set is held.
func (s *Scope) cacheShowsAll(ctx context.Context, through string) (bool, error) {
	mem := s.mem
	if mem.trusted && !s.unsure {
		return true, nil
	}
	if mem.leftOut != "" && s.Now.Before(mem.askedAt.Add(askAgain)) && !s.Now.Before(mem.askedAt) {
		s.leftOut(mem.leftOut)
		return false, nil
	}
	mem.leftOut = ""
	facts := scale.CacheFacts{Seen: s.seen, Shown: make(map[string]types.UID, len(s.candidates))}
	for _, m := range s.candidates {
		facts.Shown[m.state.Key.Name] = m.state.UID
	}
	err := s.liveMachines(ctx, func(m *metav1.PartialObjectMetadata) {
		if s.concerns(m) {
			facts.Live = append(facts.Live, scale.Live{Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion})
		}
	})
	if err != nil {
		return false, err
	}
	verdict, missing := scale.Compare(facts)
	if verdict != scale.ShowsAll {
		facts.Since = mem.missingFor(s.Now)
		mem.trusted = false
		verdict, missing = scale.Compare(facts)
	}
	switch verdict {
	case scale.ShowsAll:
		mem.shows(through)
		return true, nil
	case scale.LeavesOut:
		mem.leftOut, mem.askedAt = missing[0], s.Now
		s.leftOut(missing[0])
	case scale.Behind:
		s.wait()
	}
	return false, nil
}

// leftOut holds a set of which the cache leaves a Machine out.
func (s *Scope) leftOut(name string) {
	kind := s.env.kinds.Machine.GVK.Kind
	s.Hold(ReasonMachinesNotShown, fmt.Sprintf("%s %s exists, and the cache does not show it: have the cache of %s objects select it "+
		"(labels, fields, namespaces), or look for a webhook that takes its labels away", kind, name, kind))
	s.Requeue(askAgain)
}

// concerns reports whether a Machine is one of those that listCandidates lists.
func (s *Scope) concerns(m *metav1.PartialObjectMetadata) bool {
	owner, set := metav1.GetControllerOfNoCopy(m), s.env.kinds.Set.GVK
	if owner != nil && owner.UID == s.State.UID {
		return true
	}
	named := owner != nil && owner.Name == s.State.Key.Name && owner.Kind == set.Kind && pass.Group(owner.APIVersion) == set.Group
	return (owner == nil || named) && s.selector.Matches(labels.Set(m.Labels))
}

// listLimit is the number of Machines in one answer of the API server.
const listLimit = 500

// liveMachines passes the metadata of all Machines in the namespace of the set to a function, as the API server has them.
func (s *Scope) liveMachines(ctx context.Context, each func(*metav1.PartialObjectMetadata)) error {
	list, gvk := &metav1.PartialObjectMetadataList{}, s.env.kinds.Machine.GVK
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	for {
		err := s.env.frame.Ports.APIReader.List(ctx, list, client.InNamespace(s.State.Key.Namespace), client.Limit(listLimit),
			client.Continue(list.Continue))
		if err != nil {
			return fmt.Errorf("list %s objects: %w", gvk.Kind, err)
		}
		for i := range list.Items {
			each(&list.Items[i])
		}
		if list.Continue == "" {
			return nil
		}
		rest := &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{Continue: list.Continue}}
		rest.SetGroupVersionKind(list.GroupVersionKind())
		list = rest
	}
}

// ownLive are the Machines that the set controls as the API server itself knows them, by name.
func (s *Scope) ownLive(ctx context.Context) (map[string]metav1.PartialObjectMetadata, error) {
	own := map[string]metav1.PartialObjectMetadata{}
	err := s.liveMachines(ctx, func(m *metav1.PartialObjectMetadata) {
		if owner := metav1.GetControllerOfNoCopy(m); owner != nil && owner.UID == s.State.UID {
			own[m.Name] = *m
		}
	})
	return own, err
}

// restoring holds a restored set that waits for its Machines, and returns the ledger to continue with.
func (s *Scope) restoring(ledger scale.Ledger) scale.Ledger {
	desired, known := s.State.Replicas.Get()
	if !ledger.Restoring || !known || !s.State.Deleting.IsZero() {
		return ledger
	}
	said := s.State.Annotations[RestoredAnnotation] == string(s.State.UID)
	if ledger.RestoreIsOver(len(s.observed), int(desired), said) {
		ledger.Restoring = false
		return ledger
	}
	s.Hold(ReasonMachinesNotRestored, fmt.Sprintf("%s was restored, moved or copied with its Machines yet to come: %d of %d are there; "+
		"if no more of them come, set annotation %s to %s", s.env.kinds.Set.GVK.Kind, len(s.observed), desired, RestoredAnnotation, s.State.UID))
	return ledger
}

// burnOutdated gives slots up of which part may have been made from another template, and returns what is made from now. A slot whose
// Machine exists, as the API server itself says, is whole, and only resumed: the cache has yet to show it.
func (s *Scope) burnOutdated(ctx context.Context, ledger scale.Ledger) (string, scale.Ledger, error) {
	if len(s.holds) > 0 || !s.State.Deleting.IsZero() {
		return "", ledger, nil
	}
	template := s.fingerprint()
	outdated := map[string]int64{}
	for _, e := range ledger.Outdated(template) {
		outdated[e.Name] = e.Slot
	}
	if len(outdated) == 0 || template == "" {
		return template, ledger, nil
	}
	err := s.liveMachines(ctx, func(m *metav1.PartialObjectMetadata) {
		if metav1.IsControlledBy(m, s.Object) {
			delete(outdated, m.Name)
		}
	})
	if err != nil {
		return "", ledger, err
	}
	for _, slot := range outdated {
		ledger = ledger.Burn(slot)
		s.mem.swept = false // parts of it are left
	}
	return template, ledger, nil
}

// fingerprint is a text for what Machines are made from: the Machine as the set's template renders it, and the templates that it is cloned
// from. It is empty when there is no Machine to render, which its creation reports.
func (s *Scope) fingerprint() string {
	machine, err := s.env.kinds.Maker.NewMachine(s.Object, contract.MachineSeed{Key: s.State.Key})
	if err != nil {
		return ""
	}
	parts := []any{machine}
	for _, t := range []external.Object{s.templates.bootstrap, s.templates.infrastructure} {
		if t.Object != nil {
			parts = append(parts, t.GVK.String(), t.Object.Object["spec"])
		}
	}
	text, err := json.Marshal(parts)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:5])
}

// writeLedger writes the ledger with the resourceVersion of the set that was read. A set that has changed meanwhile is read again first.
func (s *Scope) writeLedger(ctx context.Context, have, want scale.Ledger) error {
	if have.String() == want.String() || s.held(ReasonLedgerUnreadable) {
		return nil
	}
	s.ChangeAnnotation(scale.LedgerAnnotation, contract.SetTo(want.String()))
	return s.Commit(ctx)
}

func (s *Scope) held(reason string) bool {
	return slices.ContainsFunc(s.holds, func(h scale.Hold) bool { return h.Reason == reason })
}
