package simulation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	cloud "github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

// Fault is something that goes wrong.
type Fault string

// Faults.
const (
	// LostAnswer: a request is carried out, and its answer does not arrive. NotSent: it does not get there.
	LostAnswer Fault = "lost answer"
	NotSent    Fault = "not sent"
	// ServerError, TooMany, Conflict, Forbidden and Timeout are answers 500, 429, 409, 403 and 504.
	ServerError Fault = "500"
	TooMany     Fault = "429"
	Conflict    Fault = "409"
	Forbidden   Fault = "403"
	Timeout     Fault = "504"
	// CrashBefore and CrashAfter: the process dies before a request is carried out, or before it gets the answer.
	CrashBefore Fault = "crash before"
	CrashAfter  Fault = "crash after"
	// TwoLeaders: a second process leads as well. Lag: caches are behind while others act. Skew: the clock of a process is wrong.
	TwoLeaders Fault = "two leaders"
	Lag        Fault = "lag"
	Skew       Fault = "skew"
	// UserScales and UserDeletes: a person changes the replicas, or deletes a Machine. UserStrips: removes the annotations of a set or of a
	// deployment. UserRollsOut: changes the template, or takes it back.
	UserScales   Fault = "user scales"
	UserDeletes  Fault = "user deletes"
	UserStrips   Fault = "user strips annotations"
	UserRollsOut Fault = "user rolls out"
	// UserRollsBack: a person requests the template of an earlier revision. UserRollsOutAfter: for new Machines of the same template, with
	// spec.rollout.after. Autoscales: cluster-autoscaler marks a Machine and lowers the replicas of its owner, or takes its mark back.
	UserRollsBack     Fault = "user rolls back"
	UserRollsOutAfter Fault = "user rolls out after a time"
	Autoscales        Fault = "autoscaler scales down"
	// UserNamesNoTemplate: a person rolls out to a template that does not exist, and creates it once the faults have stopped.
	// UserChangesCluster: a person changes the cluster that an owner names, and later puts it right.
	UserNamesNoTemplate Fault = "user names a template that does not exist"
	UserChangesCluster  Fault = "user changes the cluster of an owner"
	// UserDeletesSet: a person deletes a MachineSet of a deployment. UserRestores: a person backs up the management cluster, and restores
	// that later. UserRestoresElsewhere: a person restores the objects of the first namespace into another one beside them, and deletes the
	// copies at another time.
	UserDeletesSet        Fault = "user deletes a set"
	UserRestores          Fault = "user restores a backup"
	UserRestoresElsewhere Fault = "user restores into another namespace"
	// UserSkips: a person takes a Machine out of health checks, or includes it again. UserFreezes: a person keeps a set or a
	// deployment from creating, or ends that. UserEditsHealthCheck: a person changes the limits or the timeout of the check,
	// removes its annotations, deletes it, or makes it again.
	UserSkips            Fault = "user skips"
	UserFreezes          Fault = "user freezes"
	UserEditsHealthCheck Fault = "user edits the health check"
	// UpdateFails: the hook of updates in place fails. EvictionRefused: a webhook denies an eviction, or the answer is 429 without details.
	UpdateFails     Fault = "update in place fails"
	EvictionRefused Fault = "eviction refused"
	// Late: a request is carried out after its sender has given up. WatchStalls: one watch of a process shows nothing for a while, and those
	// of the other kinds do.
	Late        Fault = "late"
	WatchStalls Fault = "watch stalls"
	// KubeletDies: a Node does not answer any more, often one that is being drained. KubeletFails: it answers, and is not ready.
	// KubeletReturns: one of them is ready again. NodeReplaced: a person deletes a Node, and its kubelet registers again, with another UID.
	KubeletDies    Fault = "kubelet dies"
	KubeletFails   Fault = "kubelet fails"
	KubeletReturns Fault = "kubelet returns"
	NodeReplaced   Fault = "node replaced"
	// ZoneOutage: the Nodes of a zone, or of all zones, are not ready any more, at once. ZoneReturns: some or all of one are ready again.
	// NodeNeverJoins: no kubelet starts on an instance, or it registers its Node and never reports.
	ZoneOutage     Fault = "zone outage"
	ZoneReturns    Fault = "zone returns"
	NodeNeverJoins Fault = "node never joins"
)

// disturbance is a fault, and what it does by itself; nil for one that happens to requests, or that an actor draws.
type disturbance struct {
	fault Fault
	do    func(*World, context.Context)
}

// frequency is how many histories there are to one that has some faults, of those in which they can be.
type frequency struct {
	oneIn  int
	in     func(*World) bool
	faults []disturbance
}

// declared are all faults: each has one row, here or in the list of its actor.
func declared() []frequency {
	inAny := func(*World) bool { return true }
	withHealth := func(w *World) bool { return w.health != nil }
	withProviders := func(w *World) bool { return w.provided != nil }
	return []frequency{
		{2, inAny, append(passive(append(requestFaults(), Lag)...), disturbance{TwoLeaders, (*World).elects})},
		{2, inAny, []disturbance{
			ownerEdit(UserScales, (*owner).hasReplicas, (*owner).scaled), ownerEdit(UserRollsOut, (*owner).hasReplicas, (*owner).rolledOutOrBack),
			edit(UserDeletes, (*World).deletable, (*World).removed),
		}},
		{3, inAny, passive(UpdateFails, EvictionRefused)},
		{3, inAny, []disturbance{
			{Skew, (*World).skews}, {ClockJumps, (*World).clockJumps}, {"410", (*World).relists}, {WatchStalls, (*World).watchStalls},
			{KubeletDies, turned("Unknown", "True", "False", "")}, {KubeletFails, turned("False", "True")},
			{KubeletReturns, (*World).kubeletReturns},
			{NodeReplaced, (*World).nodeIsDeleted}, {"node comes back", (*World).nodeComesBack}, {CacheNarrowed, (*World).narrows},
			{UserRestores, (*World).restores}, {UserRestoresElsewhere, (*World).restoresElsewhere},
		}},
		{3, inAny, slices.Concat(edits(), ofClouds(), poolDisturbances(), writerDisturbances(), clusterDisturbances())},
		{3, withHealth, []disturbance{
			edit("user marks for remediation", (*World).owned, toggled(remediate)), edit(UserSkips, (*World).owned, toggled(skip)),
			edit(UserFreezes, (*World).keepers, (*World).frozen),
			{ZoneOutage, (*World).zoneFails}, {ZoneReturns, (*World).zoneReturns}, {NodeNeverJoins, (*World).neverJoins},
			{UserEditsHealthCheck, (*World).editsCheck}, {"API server away", (*World).serverFails},
		}},
		{3, withProviders, append(providerDisturbances(), passive(ProviderReportsHalf)...)},
		{12, inAny, []disturbance{ownerEdit(UserChangesCluster, (*owner).mayMove, (*owner).elsewhereOrBack)}},
	}
}

// disturbances are the faults that do something by themselves.
func disturbances() (all []disturbance) {
	for _, group := range declared() {
		all = append(all, slices.DeleteFunc(group.faults, func(d disturbance) bool { return d.do == nil })...)
	}
	return all
}

// AllFaults returns all of them.
func AllFaults() (all []Fault) {
	for _, group := range declared() {
		all = append(all, faultsOf(group.faults)...)
	}
	return all
}

func faultsOf(all []disturbance) (faults []Fault) {
	for _, d := range all {
		faults = append(faults, d.fault)
	}
	return faults
}

// passive are faults that do nothing by themselves.
func passive(faults ...Fault) (all []disturbance) {
	for _, f := range faults {
		all = append(all, disturbance{fault: f})
	}
	return all
}

func requestFaults() []Fault {
	return []Fault{LostAnswer, NotSent, ServerError, TooMany, Conflict, Forbidden, Timeout, CrashBefore, CrashAfter, Late}
}

// Request is a request of a process.
type Request struct {
	Verb, Kind, Namespace, Name string
	// Write may change something; Cloud is a call to the cloud, not to the API server.
	Write, Cloud bool

	later   func() error // carries it out at another time; nil if that cannot be
	probe   bool         // it checks whether anything answers
	session *session     // with a workload cluster; nil without
	stores  bool         // it stores an object, which a webhook may change
}

// String names it.
func (r Request) String() string { return r.Verb + " " + r.Kind + " " + r.Name }

// drawFaults decides which faults a history has, and how often requests go wrong: some invariants do not apply once a person has done
// certain things, and a defect may need one fault many times.
func (w *World) drawFaults() {
	w.drawnTo = map[Fault]bool{}
	for _, group := range declared() {
		for _, d := range group.faults {
			w.drawnTo[d.fault] = w.choices.pick(group.oneIn) == 1 && group.in(w)
		}
	}
	w.oneIn = oneOf(w, 3*oneRequestIn, oneRequestIn, oneRequestIn/2)
	w.habits = w.drawHabits()
}

func (w *World) has(f Fault) bool { return w.drawnTo[f] }

// hasNone takes faults away from a history, which has nothing that they concern.
func (w *World) hasNone(faults ...Fault) {
	for _, f := range faults {
		w.drawnTo[f] = false
	}
}

// counts notes that a fault has happened.
func (w *World) counts(f Fault) { w.seen[faultPrefix+string(f)]++ }

// had reports whether one of some faults has happened.
func (w *World) had(faults ...Fault) bool {
	return slices.ContainsFunc(faults, func(f Fault) bool { return w.seen[faultPrefix+string(f)] > 0 })
}

// oneRequestIn is how many requests there are to one that goes wrong, oneDeletionIn how many deletions of instances, after which there is
// no way back, and oneBetweenIn how many requests to one before which something else happens.
const (
	oneRequestIn  = 12
	oneDeletionIn = 4
	oneBetweenIn  = 6
)

// request decides what becomes of a request. Between two requests of a pass, others act.
func (w *World) request(p *process, r Request, call func() error) error {
	life := p.life
	p.starting.Wait()
	if w.between(); p.crashed || p.life != life {
		return errCrashed
	}
	if !r.Cloud && !r.probe {
		w.requests++
	}
	fault := w.faultOf(r)
	w.acting, w.session = p, r.session
	defer func() { w.acting, w.session = nil, nil }()
	err := w.carryOut(fault, p, r, func() error {
		err := w.admits(r, call)
		if err == nil {
			w.fail("in a fight there is at most one write a second for an object", w.isSlow(p, r))
		}
		return err
	})
	answer := textOf(err)
	if fault != "" {
		answer = string(fault) + ": " + answer
	}
	if !r.probe || err != nil {
		w.note(p.name, r.String(), answer)
	}
	if w.acting, w.session = nil, nil; err != nil {
		w.changesRefused(r)
		w.nodeRefused(r)
	}
	return err
}

// faultOf draws what goes wrong with a request; empty for nothing.
func (w *World) faultOf(r Request) Fault {
	if w.health.away(w, r) || r.session.isAway(w) {
		return Timeout
	}
	n := w.oneIn
	if r.Cloud && r.Verb == string(cloud.OpDelete) {
		n = oneDeletionIn
	}
	fault := w.drawn(requestFaults(), n)
	if fault == Conflict && !r.Write || fault == Late && r.later == nil {
		return ""
	}
	if fault != "" {
		w.counts(fault)
	}
	return fault
}

// carryOut carries a request out, or not, as a fault requires.
func (w *World) carryOut(fault Fault, p *process, r Request, call func() error) error {
	switch fault { //nolint:exhaustive // the others are answers
	case "":
		return call()
	case Late:
		planned, sent := p.began, w.available(p)
		w.late = append(w.late, func() {
			w.backups.crossed = w.backups.crossed || planned < w.backups.event
			w.sentAt = sent
			r.stores = false
			w.note("network", r.String()+" of "+p.name+" arrives", textOf(w.admits(r, r.later)))
			w.sentAt = nil
		})
		return context.DeadlineExceeded
	case LostAnswer:
		_ = call()
		return io.ErrUnexpectedEOF
	case CrashAfter:
		_ = call()
		fallthrough
	case CrashBefore:
		p.crashed = true
		return errCrashed
	}
	return answerOf(fault, r)
}

// drawn returns one of some faults that the history has, once in n times; empty for none.
func (w *World) drawn(among []Fault, n int) Fault {
	among = slices.DeleteFunc(among, func(f Fault) bool { return !w.has(f) })
	if w.calm || w.exhausted() || len(among) == 0 || !w.choices.oneIn(n) {
		return ""
	}
	return among[w.choices.pick(len(among))]
}

func answerOf(f Fault, r Request) error {
	gr := schema.GroupResource{Group: "cluster.x-k8s.io", Resource: r.Kind}
	if r.Cloud {
		classes := map[Fault]cloud.Class{TooMany: cloud.RateLimited, Forbidden: cloud.Unauthenticated, Conflict: cloud.Exhausted}
		return cloud.Errorf(cmp.Or(classes[f], cloud.Unavailable), "simulated: %s", f)
	}
	if r.session != nil && r.session.ended {
		return fmt.Errorf("%w: the connection was closed", cluster.ErrNotConnected)
	}
	problem := errors.New("simulated")
	return cmp.Or(map[Fault]error{
		ServerError: apierrors.NewInternalError(problem), TooMany: apierrors.NewTooManyRequests("simulated", 1),
		Conflict: apierrors.NewConflict(gr, r.Name, problem), Forbidden: apierrors.NewForbidden(gr, r.Name, problem),
		Timeout: apierrors.NewTimeoutError("simulated", 1),
	}[f], io.ErrUnexpectedEOF) // the others have no answer
}
