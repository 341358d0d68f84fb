package simulation

import (
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
	// CrashBefore and CrashAfter: the process dies before a request is carried out, or before it sees the answer.
	CrashBefore Fault = "crash before"
	CrashAfter  Fault = "crash after"
	// TwoLeaders: a second process leads as well. Lag: caches are behind while others act. Skew: the clock of a process is wrong.
	TwoLeaders Fault = "two leaders"
	Lag        Fault = "lag"
	Skew       Fault = "skew"
	// UserScales, UserDeletes and UserStrips: a person changes the replicas, deletes a Machine, or removes the annotations of an owner.
	UserScales  Fault = "user scales"
	UserDeletes Fault = "user deletes"
	UserStrips  Fault = "user strips annotations"
	// UserRollsOut: the template changes, or goes back.
	UserRollsOut Fault = "user rolls out"
	// UserRollsBack: a person asks for the template of an earlier revision. UserRollsOutAfter: for new Machines of the same template, with
	// spec.rollout.after. UserPausesRollout: a person holds a rollout up, or lets it go on. Autoscales: cluster-autoscaler marks a Machine and
	// lowers the replicas of its owner, or takes its mark back.
	UserRollsBack     Fault = "user rolls back"
	UserRollsOutAfter Fault = "user rolls out after a time"
	UserPausesRollout Fault = "user pauses a rollout"
	Autoscales        Fault = "autoscaler scales down"
	// UpdatesInPlace: the hook of updates in place fails.
	UpdateFails Fault = "update in place fails"
	// UserPauses: a person pauses an object, or lets it go on. UserDeletesSet: a person deletes a MachineSet of a deployment, with one of the
	// propagation policies. UserRestores: a person backs up the management cluster, and restores that later.
	UserPauses     Fault = "user pauses"
	UserDeletesSet Fault = "user deletes a set"
	UserRestores   Fault = "user restores a backup"
	// Relist: a watch skips events, and the cache lists again (410). Late: a request is carried out after its sender has given up.
	Relist Fault = "410"
	Late   Fault = "late"
	// KubeletDies: a Node does not answer any more, often one that is being drained. KubeletFails: it answers, and is not ready.
	// KubeletReturns: one of them is ready again.
	KubeletDies    Fault = "kubelet dies"
	KubeletFails   Fault = "kubelet fails"
	KubeletReturns Fault = "kubelet returns"
	// NodeReplaced: a person deletes a Node, and its kubelet registers again, with another UID.
	NodeReplaced Fault = "node replaced"
	// Hooks: another program has a Machine wait before its drain or its end, or lets it go on.
	Hooks Fault = "hooks"
	// WatchStalls: one watch of a process shows nothing for a while, and those of the other kinds do.
	WatchStalls Fault = "watch stalls"
	// EvictionRefused: a webhook denies an eviction, or the answer is 429 without details.
	EvictionRefused Fault = "eviction refused"
)

// AllFaults returns all of them.
func AllFaults() []Fault {
	return slices.Concat(requestFaults(), []Fault{TwoLeaders, Lag, Skew, UserScales, UserDeletes, UserStrips, UserRollsOut, UserRollsBack,
		UserRollsOutAfter, UserPausesRollout, Autoscales, UpdateFails, UserPauses,
		UserDeletesSet, UserRestores, UserRestoresElsewhere, UserNamesNoTemplate, UserChangesCluster, Relist, KubeletDies, KubeletFails,
		KubeletReturns, NodeReplaced, EvictionRefused, Hooks}, healthFaults(), cloudFaults(), poolFaults(), providerFaults(), writerFaults(), clusterFaults(),
		[]Fault{ClockJumps, NodeComesBack, WatchStalls, CacheNarrowed})
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
	probe   bool         // it asks whether anything answers
	session *session     // with a workload cluster; nil without
	// rewritten carries it out as a webhook changes the object; nil if it stores none.
	rewritten func(webhookChange) error
}

// String names it.
func (r Request) String() string { return r.Verb + " " + r.Kind + " " + r.Name }

// drawFaults decides which faults a history has, and how often requests go wrong: some invariants say nothing once a person has done
// certain things, and a defect may need one fault many times.
func (w *World) drawFaults() {
	w.drawnTo = map[Fault]bool{}
	for _, f := range AllFaults() {
		n := 3
		if slices.Contains(append(requestFaults(), Lag, TwoLeaders, UserScales, UserDeletes, UserRollsOut), f) {
			n = 2
		}
		w.drawnTo[f] = w.choices.pick(n) == 1 && (w.health != nil || !isOfHealth(f)) && (w.provided != nil || !isOfProviders(f))
	}
	for _, f := range rareFaults() {
		w.drawnTo[f] = w.drawnTo[f] && w.choices.pick(4) == 0
	}
	w.oneIn = []int{3 * oneRequestIn, oneRequestIn, oneRequestIn / 2}[w.choices.pick(3)]
	w.habits = w.drawHabits()
}

// rareFaults are those after which an invariant is broken until a mechanism is rewritten; see testdata/expected.txt.
func rareFaults() []Fault { return []Fault{UserChangesCluster} }

func (w *World) has(f Fault) bool { return w.drawnTo[f] }

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
	w.expect(InAFight, w.isSlow(p, r))
	err := w.carryOut(fault, p, r, func() error { return w.admits(r, call) })
	answer := said(err)
	if fault != "" {
		answer = string(fault) + ": " + answer
	}
	if !r.probe || err != nil {
		w.note(p.name, r.String(), answer)
	}
	if w.acting, w.session = nil, nil; err != nil {
		w.changesRefused(r)
		w.left.refused(r)
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
		w.seen[faultPrefix+string(fault)]++
	}
	return fault
}

// carryOut carries a request out, or not, as a fault wants.
func (w *World) carryOut(fault Fault, p *process, r Request, call func() error) error {
	switch fault { //nolint:exhaustive // the others are answers
	case "":
		return call()
	case Late:
		planned, sent := p.began, w.available(p)
		w.late = append(w.late, func() {
			w.backups.crossed = w.backups.crossed || planned < w.backups.event
			w.sentAt = sent
			r.rewritten = nil
			w.note("network", r.String()+" of "+p.name+" arrives", said(w.admits(r, r.later)))
			w.sentAt = nil
		})
		return context.DeadlineExceeded
	case LostAnswer:
		_ = call()
		return io.ErrUnexpectedEOF
	case CrashAfter:
		_ = call()
		p.crashed = true
		return errCrashed
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
		class := map[Fault]cloud.Class{TooMany: cloud.RateLimited, Forbidden: cloud.Unauthenticated, Conflict: cloud.Exhausted}[f]
		if class == "" {
			class = cloud.Unavailable
		}
		return cloud.Errorf(class, "simulated: %s", f)
	}
	if r.session != nil && r.session.ended {
		return fmt.Errorf("%w: the connection was closed", cluster.ErrNotConnected)
	}
	switch f { //nolint:exhaustive // the others have no answer
	case ServerError:
		return apierrors.NewInternalError(errors.New("simulated"))
	case TooMany:
		return apierrors.NewTooManyRequests("simulated", 1)
	case Conflict:
		return apierrors.NewConflict(gr, r.Name, errors.New("simulated"))
	case Forbidden:
		return apierrors.NewForbidden(gr, r.Name, errors.New("simulated"))
	case Timeout:
		return apierrors.NewTimeoutError("simulated", 1)
	}
	return io.ErrUnexpectedEOF
}
