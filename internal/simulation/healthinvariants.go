package simulation

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machine/healthcheck"
	"github.com/machinist-dev/machinist/machineset/rollout"
	"github.com/machinist-dev/machinist/machineset/safety"
)

// Names of the invariants about health checks and the safety, which are checked in histories that have some.
const (
	SparesHealthy   = "no Machine is marked whose Node was there and ready during the whole pass"
	AwaitsTimeout   = "no Machine is marked before its Node was unhealthy for as long as the check says, and the API server answers"
	KeepsLimit      = "there are never more Machines in remediation, or gone without a healthy one in their place, than the limit allows"
	OutageStays     = "no Machine of an outage is marked"
	RecoversFirst   = "the Machines of an outage have time to recover when it has ended"
	RemembersMarks  = "the ledger of a check has a Machine before it is marked"
	SaysHealthy     = "no Machine is said to be healthy whose Node has not reported"
	HonoursWishes   = "no Machine is marked that is skipped or paused, and none by a check that is paused"
	SparesRecovered = "no Machine is replaced that its check has found healthy again"
	RemediationKept = "remediations of a deployment leave as many Machines available as it says"
	FrozenHolds     = "a set that is frozen creates nothing"
	ClosedHolds     = "no set creates anything while the API server does not answer"
	FreezesSurplus  = "a set is frozen only with more Machines than it may have"
)

// healthInvariants are those of histories with a health check.
func healthInvariants() []Invariant {
	marking := func(name string, check func(*World, *marked) error) Invariant {
		return Invariant{Name: name, AfterWrite: func(w *World, e Write) error {
			if !marks(w, e) {
				return nil
			}
			return check(w, newMarked(w, e))
		}}
	}
	return []Invariant{
		marking(SparesHealthy, sparesHealthy), marking(AwaitsTimeout, awaitsTimeout), marking(KeepsLimit, keepsLimit),
		marking(OutageStays, outageStays), marking(RecoversFirst, recoversFirst), marking(RemembersMarks, remembersMarks),
		marking(HonoursWishes, honoursWishes),
		{Name: SaysHealthy, AfterWrite: saysHealthy}, {Name: SparesRecovered, AfterWrite: sparesRecovered},
		{Name: RemediationKept, AfterWrite: remediationKept},
		{Name: FrozenHolds, AfterWrite: frozenHolds}, {Name: ClosedHolds, AfterWrite: closedHolds},
		{Name: FreezesSurplus, AfterWrite: freezesSurplus},
	}
}

// marks reports whether a process requests the remediation of a Machine with the write.
func marks(w *World, e Write) bool {
	if w.health == nil || w.acting == nil || e.Before == nil || e.Removed || e.After.GetKind() != "Machine" {
		return false
	}
	before, _, _ := conditionOf(e.Before, contract.ConditionOwnerRemediated)
	after, _, _ := conditionOf(e.After, contract.ConditionOwnerRemediated)
	return before != "False" && after == "False"
}

// marked is a Machine that is marked in a pass.
type marked struct {
	before, after *unstructured.Unstructured
	pass          *passing
	name, reason  string
	// stored and shown are the check as the API server and the caches of the process have it; nil without.
	stored, shown *unstructured.Unstructured
}

func newMarked(w *World, e Write) *marked {
	m := &marked{
		before: e.Before, after: e.After, name: e.After.GetName(), pass: &w.health.guards[w.acting].pass,
		stored: w.object(checkKind, namespace, CheckName), shown: w.acting.view.kinds[kindOf(checkKind).GroupKind()].objects[checkKey()],
	}
	_, m.reason, _ = conditionOf(e.After, contract.ConditionHealthCheckSucceeded)
	return m
}

// checks are the versions of the check that the process may have decided by.
func (m *marked) checks() []*contract.HealthCheckState {
	var all []*contract.HealthCheckState
	for _, obj := range []*unstructured.Unstructured{m.stored, m.shown} {
		if obj != nil {
			all = append(all, checkState(obj))
		}
	}
	return all
}

func sparesHealthy(w *World, m *marked) error {
	name, node := w.storedNode(m.before)
	if m.reason == healthcheck.ReasonNodeStartupTimeout && name != "" {
		return fmt.Errorf("%s has Node %s, and is marked because it has none", m.name, name)
	}
	if node == nil || w.health.watch.changed[node.GetUID()] > m.pass.began {
		return nil
	}
	switch {
	case m.reason == healthcheck.ReasonNodeDeleted:
		return fmt.Errorf("%s has Node %s, and is marked because it was deleted", m.name, name)
	case m.reason == healthcheck.ReasonUnhealthyNode && readinessOf(node) == string(corev1.ConditionTrue):
		return fmt.Errorf("%s has Node %s, which is ready", m.name, name)
	}
	return nil
}

func awaitsTimeout(w *World, m *marked) error {
	if m.pass.closed && w.health.guards[m.pass.process].isClosed() {
		return fmt.Errorf("%s is marked, and the gate of the process is closed", m.name)
	}
	_, node := w.storedNode(m.before)
	if m.reason != healthcheck.ReasonUnhealthyNode || node == nil || w.health.watch.changed[node.GetUID()] > m.pass.began {
		return nil
	}
	since := readyOf(typed[corev1.Node](node)).LastTransitionTime.Time
	if m.pass.thawed.After(since) {
		since = m.pass.thawed
	}
	if lasted, timeout := max((skewed{m.pass.process}).Since(since), m.pass.at.Sub(since)), m.timeout(); lasted < timeout {
		return fmt.Errorf("%s is marked after %s of %s", m.name, lasted, timeout)
	}
	return nil
}

// timeout is the shortest by which the process may have decided.
func (m *marked) timeout() time.Duration {
	least := m.pass.timeout
	for _, check := range m.checks() {
		least = min(least, timeoutOf(check))
	}
	return least
}

// keepsLimit counts what is marked, and leaves out what the cache may not show: other Machines that are unhealthy. A place whose Machine is
// gone counts among all Machines, of which a percentage is taken. It allows for more once a backup was restored: the ledger of the check,
// and the marks, are then of another time.
func keepsLimit(w *World, m *marked) error {
	if w.backups.restored {
		return nil
	}
	var made time.Time
	if m.stored != nil {
		made = m.stored.GetCreationTimestamp().Time
	}
	n := w.health.watch.inFlight(w, made)
	total := max(len(w.Objects("Machine")), len(m.pass.process.view.kinds[kindOf("Machine").GroupKind()].objects)) + n
	most := -1
	for _, check := range m.checks() {
		if limit, err := healthcheck.ParseLimit(check.MaxUnhealthy, check.UnhealthyRange); err == nil {
			most = max(most, limit.Max(total))
		}
	}
	if most >= 0 && n > most {
		return fmt.Errorf("%s is number %d of at most %d", m.name, n, most)
	}
	return nil
}

func outageStays(_ *World, m *marked) error {
	now := down(m.pass.process)
	for _, domain := range slices.Sorted(maps.Keys(m.pass.down)) {
		if machines := m.pass.down[domain]; slices.Contains(machines, m.after.GetUID()) && slices.Contains(now[domain], m.after.GetUID()) {
			return fmt.Errorf("%s is one of %d Machines of the domain %q, and the Nodes of all of them are not ready", m.name, len(machines), domain)
		}
	}
	return nil
}

// recoversFirst holds for a Machine whose Node was not ready all the time. Times are also judged by the clock of the process, as in
// awaitsTimeout: one that is ahead ends each limit early. A single Machine that is left of an outage is none of it, as healthcheck says: it
// has time only from an end that the check has seen, which its ledger says before the mark.
func recoversFirst(w *World, m *marked) error {
	_, node := w.storedNode(m.before)
	if m.reason != healthcheck.ReasonUnhealthyNode || node == nil {
		return nil
	}
	since := readyOf(typed[corev1.Node](node)).LastTransitionTime.Time
	for _, domain := range slices.Sorted(maps.Keys(w.health.watch.outages)) {
		o := w.health.watch.outages[domain]
		if !slices.Contains(o.machines, m.after.GetUID()) || since.After(o.at) || !o.there {
			continue
		}
		if len(o.machines) == 1 && !o.endRecorded(w, domain) {
			continue
		}
		had := max(w.Now().Sub(o.recovered), (skewed{m.pass.process}).Since(o.recovered))
		if timeout := m.timeout(); had+w.slack() < timeout {
			return fmt.Errorf("%s has had %s of %s since the outage of the domain %q ended", m.name, had, timeout, domain)
		}
	}
	return nil
}

// remembersMarks is about the check as the API server has it. Where it has lost its ledger, and the cache did not show that when the pass
// began, it is about the version that the cache showed, which was stored before: a pass that repeats a mark has nothing to add to it.
func remembersMarks(w *World, m *marked) error {
	if m.stored == nil || m.shown == nil || m.stored.GetUID() != m.shown.GetUID() || w.health.watch.lost >= m.pass.began {
		return nil
	}
	check := m.stored
	if shown := m.pass.shown; shown != nil && w.health.watch.remembers(shown) {
		check = shown
	}
	ledger, _ := healthcheck.ParseLedger(check.GetAnnotations()[healthcheck.LedgerAnnotation], check.GetUID())
	if !slices.ContainsFunc(ledger.InFlight, func(e healthcheck.Entry) bool { return e.Machine == m.after.GetUID() && e.Decided }) {
		return fmt.Errorf("%s is not in %s", m.name, ledger)
	}
	return nil
}

func honoursWishes(_ *World, m *marked) error {
	_, skipped := m.before.GetAnnotations()[skip]
	switch {
	case skipped, isPaused(m.before):
		return fmt.Errorf("%s has the annotations %v", m.name, m.before.GetAnnotations())
	case m.pass.paused:
		return fmt.Errorf("%s is marked by a check that is paused", m.name)
	}
	return nil
}

// saysHealthy is about what a pass says whose caches showed, all the time, that a Node had not reported.
func saysHealthy(w *World, e Write) error {
	if w.health == nil || w.acting == nil || e.Before == nil || e.Removed || e.After.GetKind() != "Machine" {
		return nil
	}
	before, _, _ := conditionOf(e.Before, contract.ConditionHealthCheckSucceeded)
	after, _, _ := conditionOf(e.After, contract.ConditionHealthCheckSucceeded)
	silent := w.health.guards[w.acting].pass.silent[e.After.GetUID()] && isSilent(w.acting, e.Before)
	if silent && before != "True" && after == "True" {
		return fmt.Errorf("%s is said to be healthy", e.After.GetName())
	}
	return nil
}

// isReplaced reports whether a process deletes a Machine with the write because a check has marked it.
func isReplaced(w *World, e Write) bool {
	if w.health == nil || w.acting == nil || e.Before == nil || e.After.GetKind() != "Machine" || e.Before.GetDeletionTimestamp() != nil ||
		e.After.GetDeletionTimestamp() == nil && !e.Removed {
		return false
	}
	status, reason, _ := conditionOf(e.Before, contract.ConditionOwnerRemediated)
	return status == "False" && reason == contract.ReasonMachineDeleting
}

// sparesRecovered says nothing of a Machine that goes for another reason, such as a rollout.
func sparesRecovered(w *World, e Write) error {
	o := w.ownerOf(e.After)
	if !isReplaced(w, e) || o == nil || o.kind != "MachineSet" || o.leaves() {
		return nil
	}
	if succeeded, _, _ := conditionOf(e.Before, contract.ConditionHealthCheckSucceeded); succeeded == "True" && len(o.owned()) <= o.desired() {
		return fmt.Errorf("%s is deleted, and its check has found it healthy", e.After.GetName())
	}
	return nil
}

// remediationKept is about Machines that are available, which a person wants to be replaced.
func remediationKept(w *World, e Write) error {
	o := w.ownerOf(e.After)
	if !isReplaced(w, e) || o == nil || !o.deploys() || o.strategy != rollout.RollingUpdate || o.leaves() || !serves(e.Before) ||
		w.seen[faultPrefix+string(UserDeletes)]+w.seen[faultPrefix+string(UserScales)]+w.seen[faultPrefix+string(UserDeletesSet)] > 0 {
		return nil
	}
	left := 0
	for _, m := range o.owned() {
		if serves(m) && m.GetDeletionTimestamp() == nil {
			left++
		}
	}
	if least := o.floor(); left < least && o.serving(w.acting) <= least {
		return fmt.Errorf("%s is deleted, and %d available Machines are left of at least %d", e.After.GetName(), left, least)
	}
	return nil
}

// serves reports whether a Machine is available, as its conditions say.
func serves(m *unstructured.Unstructured) bool {
	status, _, _ := conditionOf(m, "Available")
	return status == "True"
}

// serving is how many Machines of the owner are available in the cache of a process.
func (o *owner) serving(p *process) int {
	n := 0
	for _, m := range sorted(p.view.kinds[kindOf("Machine").GroupKind()].objects) {
		if serves(m) && m.GetDeletionTimestamp() == nil && ownedBySet(m) && o.world.ownerOf(m) == o {
			n++
		}
	}
	return n
}

// creates returns the pass of a set that creates a Machine with the write; nil for another write.
func creates(w *World, e Write) *passing {
	if w.health == nil || w.acting == nil || e.Before != nil || e.After.GetKind() != "Machine" || !ownedBySet(e.After) {
		return nil
	}
	if b := &w.health.guards[w.acting].pass; b.kind == "MachineSet" {
		return b
	}
	return nil
}

func frozenHolds(w *World, e Write) error {
	if b := creates(w, e); b != nil && b.frozen {
		return fmt.Errorf("%s is created", e.After.GetName())
	}
	return nil
}

func closedHolds(w *World, e Write) error {
	if b := creates(w, e); b != nil && b.closed && w.health.guards[w.acting].isClosed() {
		return fmt.Errorf("%s is created", e.After.GetName())
	}
	return nil
}

func freezesSurplus(w *World, e Write) error {
	if w.health == nil || w.acting == nil || e.Before == nil || e.After.GetKind() != "MachineSet" || isFrozen(e.Before) ||
		!isFrozen(e.After) || e.After.GetAnnotations()[safety.FrozenByAnnotation] != safety.ReasonOverShooting {
		return nil
	}
	desired, _, _ := unstructured.NestedInt64(e.Before.Object, "spec", "replicas")
	n := 0
	for _, m := range w.acting.view.kinds[kindOf("Machine").GroupKind()].objects {
		if owner := metav1.GetControllerOf(m); owner != nil && owner.UID == e.After.GetUID() {
			n++
		}
	}
	if int64(n) <= desired {
		return fmt.Errorf("%s is frozen with %d Machines of %d", e.After.GetName(), n, desired)
	}
	return nil
}
