package drain

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ReasonVolumeTurn is the reason of a Pod that waits because Pods with volumes leave its Node one after the other.
const ReasonVolumeTurn Reason = "VolumeTurn"

// SerialVolumes lets Pods with volumes leave a Node one after the other, those of a higher priority first: if a driver attaches volumes
// slowly, few applications wait at a time. Gardener's machine-controller-manager drains in this way; here it is optional. The turn of a Pod
// lasts until the Pod is gone and its volumes are detached from the Node and, with ReattachTimeout, attached to another Node. A volume that
// several Pods of the Node use is waited for after the last of them. A limit ends only the turn: the Pod still blocks the drain, and the
// volume still blocks the wait for volumes.
//
// A Pod that a budget or an error holds loses its turn to the next one. Orders come first: Pods of the lowest order take turns.
type SerialVolumes struct {
	// MaxParallel is how many Pods of a Node may have a turn at the same time; 0 or less means 1.
	MaxParallel int
	// TerminateTimeout ends the turn of a Pod that still exists this long after its deletionTimestamp, which includes its grace period; 0
	// means 30 s.
	TerminateTimeout time.Duration
	// DetachTimeout ends the wait for a volume that is still attached this long after its last Pod is gone; 0 means 2 min.
	DetachTimeout time.Duration
	// ReattachTimeout ends the wait until a detached volume is attached to another Node. 0 means not to wait. A volume whose Pod is not
	// replaced takes the whole limit. Gardener waits 90 s.
	ReattachTimeout time.Duration
}

// VolumeStage is what a turn waits for.
type VolumeStage uint8

// The zero value is not used.
const (
	// WaitDetach: the Pods that used the volume are gone, and it is still attached to the Node.
	WaitDetach VolumeStage = iota + 1
	// WaitReattach: the volume is detached from the Node and not attached to another one yet.
	WaitReattach
)

// String returns the name without its prefix, for example "Detach".
func (s VolumeStage) String() string {
	return nameOf(s, "VolumeStage", "VolumeStage(0)", "Detach", "Reattach")
}

// VolumeWait is a volume that takes a turn after its Pod.
type VolumeWait struct {
	VolumeRef
	// Pod used the volume last; empty if it is unknown.
	Pod   PodRef
	Stage VolumeStage
	// Deadline is when the wait ends without success.
	Deadline time.Time
	// Overdue says that Deadline has passed. The volume no longer takes a turn. It is listed until it is detached and attached again.
	Overdue bool
}

// VolumeTurns are the turns on one Node. [SerialVolumes.Next] makes them. They are immutable. If nil, Pods with volumes leave like other
// Pods.
type VolumeTurns struct {
	// Waits are sorted by PersistentVolume.
	Waits []VolumeWait

	policy  SerialVolumes
	unknown string                        // why the turns are unknown
	claims  map[types.NamespacedName]bool // claims whose volumes are waited for
	users   map[string]volumeUse          // by PersistentVolume: the Pod that uses it or used it last
	now     time.Time
}

type volumeUse struct {
	ref VolumeRef
	pod PodRef
}

// TurnFacts is what [SerialVolumes.Next] knows about one Node.
type TurnFacts struct {
	Now time.Time
	// Volumes is a plan of the volumes of the Node. It can be made without decisions: a Pod that stays still uses its volumes.
	Volumes VolumePlan
	// Pods are the Pods of the Node. They are shared and not changed.
	Pods []*corev1.Pod
	// Elsewhere reports whether a PersistentVolume is attached to another Node; nil means that none is.
	Elsewhere func(pv string) bool
}

// UnknownVolumes lets every Pod with a claim wait, with the given message.
func (s SerialVolumes) UnknownVolumes(prev *VolumeTurns, message string) *VolumeTurns {
	t := &VolumeTurns{policy: s.complete(), unknown: message}
	if prev != nil {
		t.Waits, t.users = prev.Waits, prev.users
	}
	return t
}

// Next returns the turns on the Node. prev is the previous result, or nil at first and after a restart: waits for detachment are then found
// again with new limits, and waits for attachment to other Nodes are lost. The result depends only on the arguments.
func (s SerialVolumes) Next(prev *VolumeTurns, facts TurnFacts) *VolumeTurns {
	t := &VolumeTurns{policy: s.complete(), claims: map[types.NamespacedName]bool{}, users: map[string]volumeUse{}, now: facts.Now}
	if prev == nil {
		prev = &VolumeTurns{}
	}
	waits := make(map[string]VolumeWait, len(prev.Waits))
	for _, w := range prev.Waits {
		waits[w.PV] = w
	}
	users, alive := usersOf(facts.Pods)
	here := map[string]bool{}
	for _, d := range facts.Volumes.Blocking() {
		if d.PV == "" || d.Claim.Name == "" {
			continue // the Pod that uses it is unknown
		}
		here[d.PV], t.claims[d.Claim] = true, true
		if pod, used := users[d.Claim]; used {
			t.users[d.PV] = volumeUse{ref: d.VolumeRef, pod: pod}
			continue
		}
		t.wait(waits[d.PV], VolumeWait{VolumeRef: d.VolumeRef, Pod: prev.users[d.PV].pod, Stage: WaitDetach})
	}
	for pv, use := range prev.users {
		switch {
		case here[pv]:
		case alive[use.pod.UID]: // detached before its Pod is gone
			t.users[pv], t.claims[use.ref.Claim] = use, true
		default:
			t.reattach(waits[pv], use, facts.Elsewhere)
		}
	}
	for pv, w := range waits {
		if _, used := prev.users[pv]; !used && !here[pv] {
			t.reattach(w, volumeUse{ref: w.VolumeRef, pod: w.Pod}, facts.Elsewhere)
		}
	}
	slices.SortFunc(t.Waits, func(a, b VolumeWait) int { return cmp.Compare(a.PV, b.PV) })
	return t
}

func (s SerialVolumes) complete() SerialVolumes {
	if s.MaxParallel <= 0 {
		s.MaxParallel = 1
	}
	if s.TerminateTimeout <= 0 {
		s.TerminateTimeout = 30 * time.Second
	}
	if s.DetachTimeout <= 0 {
		s.DetachTimeout = 2 * time.Minute
	}
	return s
}

// usersOf returns the first Pod by name that uses each claim, and the UIDs of all Pods.
func usersOf(pods []*corev1.Pod) (users map[types.NamespacedName]PodRef, alive map[types.UID]bool) {
	users, alive = map[types.NamespacedName]PodRef{}, map[types.UID]bool{}
	for _, pod := range pods {
		if pod == nil || finished(pod) { // ended containers use no volumes
			continue
		}
		alive[pod.UID] = true
		ref := RefOf(pod)
		for _, claim := range claimsOf(pod) {
			if known, found := users[claim]; !found || comparePodRefs(ref, known) < 0 {
				users[claim] = ref
			}
		}
	}
	return users, alive
}

// wait adds a wait, with the deadline from its beginning.
func (t *VolumeTurns) wait(before, w VolumeWait) {
	limit := t.policy.DetachTimeout
	if w.Stage == WaitReattach {
		limit = t.policy.ReattachTimeout
	}
	w.Since, w.Deadline = t.now, t.now.Add(limit)
	if before.Stage == w.Stage {
		w.Since, w.Deadline, w.Pod = before.Since, before.Deadline, before.Pod
	}
	w.Overdue = !t.now.Before(w.Deadline)
	t.Waits = append(t.Waits, w)
}

func (t *VolumeTurns) reattach(before VolumeWait, use volumeUse, elsewhere func(string) bool) {
	if t.policy.ReattachTimeout <= 0 || (elsewhere != nil && elsewhere(use.ref.PV)) {
		return
	}
	ref := use.ref
	ref.Reason = "" // no longer attached here
	t.wait(before, VolumeWait{VolumeRef: ref, Pod: use.pod, Stage: WaitReattach})
}

// Deadline returns when the next limit of a volume passes; zero if there is none.
func (t *VolumeTurns) Deadline() time.Time {
	var next time.Time
	if t == nil {
		return next
	}
	for i := range t.Waits {
		if w := &t.Waits[i]; !w.Overdue && (next.IsZero() || w.Deadline.Before(next)) {
			next = w.Deadline
		}
	}
	return next
}

// Summary returns a line per stage about the volumes that are waited for, in the form of [Plan.Summary]. Each line names at most maxNames
// claims; 0 or less means 5. It is empty if there are none.
func (t *VolumeTurns) Summary(maxNames int) string {
	if t == nil {
		return ""
	}
	var lines []string
	for _, stage := range []struct {
		stage VolumeStage
		text  string
	}{{WaitDetach, "waiting until detached from the Node"}, {WaitReattach, "waiting until attached to another Node"}} {
		var claims []string
		for i := range t.Waits {
			if w := &t.Waits[i]; w.Stage == stage.stage && !w.Overdue {
				claims = append(claims, w.Claim.String())
			}
		}
		if len(claims) > 0 {
			lines = append(lines, "* PersistentVolumeClaims "+limited(claims, maxNames)+": "+stage.text)
		}
	}
	return strings.Join(lines, "\n")
}

// settleInTurn settles all decisions of a Node: first Pods that take no turn, in the order of the plan; then Pods with volumes by priority,
// as long as a turn is free.
func (t *VolumeTurns) settleInTurn(ds []Decision, held map[types.UID]Hold, settle func(*Decision)) {
	taken := t.busy()
	var queue []*Decision
	for i := range ds {
		d := &ds[i]
		switch {
		case !t.Concerns(d.Pod):
			settle(d)
		case d.Action != Evict && d.Action != Delete, outsideOrders(d): // a deadline does not wait for volumes
			settle(d)
			taken += t.turns(d)
		case underWay(held[d.Pod.UID].Reason): // it was requested, and keeps its turn whatever its priority
			settle(d)
			taken++
		default:
			queue = append(queue, d)
		}
	}
	slices.SortStableFunc(queue, func(a, b *Decision) int { return cmp.Compare(priority(b.Pod), priority(a.Pod)) })
	for _, d := range queue {
		switch {
		case t.unknown != "":
			d.hold(Wait, ReasonVolumeTurn, t.unknown)
		case taken >= t.policy.MaxParallel:
			d.hold(Wait, ReasonVolumeTurn, "waiting until the volumes of other Pods have left the Node")
		default:
			settle(d)
			taken += t.turns(d)
		}
	}
}

// underWay reports that the Pod may be evicted, or have been evicted, without another planned request.
func underWay(r Reason) bool {
	return slices.Contains([]Reason{
		ReasonEvictionRequested, ReasonEvictionAccepted, ReasonThrottled, ReasonUnauthorized, ReasonUnknownOutcome,
	}, r)
}

// turns returns how many turns a decision takes: 1 or 0.
func (t *VolumeTurns) turns(d *Decision) int {
	switch {
	case d.Action == Ignore:
		return 0
	case d.Pod.DeletionTimestamp != nil:
		if t.now.Before(d.Pod.DeletionTimestamp.Add(t.policy.TerminateTimeout)) {
			return 1
		}
		return 0
	case d.Action == Evict || d.Action == Delete || underWay(d.Reason):
		return 1
	default:
		return 0
	}
}

// busy counts the turns that volumes take after their Pods. The volumes of one Pod take one turn.
func (t *VolumeTurns) busy() int {
	pods, unseen := map[types.UID]bool{}, 0
	for i := range t.Waits {
		switch w := &t.Waits[i]; {
		case w.Overdue:
		case w.Pod.UID == "":
			unseen++
		default:
			pods[w.Pod.UID] = true
		}
	}
	return len(pods) + unseen
}

// Concerns reports whether a Pod takes a turn: it has a claim whose volume is attached to the Node and is waited for. Finished Pods use no
// volumes.
func (t *VolumeTurns) Concerns(pod *corev1.Pod) bool {
	if t == nil || finished(pod) {
		return false
	}
	return slices.ContainsFunc(claimsOf(pod), func(claim types.NamespacedName) bool { return t.unknown != "" || t.claims[claim] })
}

// Full reports that no Pod may have a turn in addition to those of a plan of the Node.
func (t *VolumeTurns) Full(p Plan) bool {
	if t == nil {
		return false
	}
	taken := t.busy()
	for i := range p.Decisions {
		if d := &p.Decisions[i]; t.Concerns(d.Pod) {
			taken += t.turns(d)
		}
	}
	return t.unknown != "" || taken >= t.policy.MaxParallel
}
