package remediation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machine/healthcheck"
	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

// scope is one pass over one check: the facts that were read, the decisions so far, and the functions to write them. Only the worker that
// runs the pass uses it.
type scope struct {
	engine.Scope[contract.HealthCheckState, contract.HealthCheckUpdate]

	// workload is the access to the Nodes of the check's cluster; nodesErr is why there is none.
	workload cluster.Workload
	nodesErr error

	env     *Reconciler
	members []*member // sorted by name
	// template is the template of requests for external remediation; problem is why there is none.
	template *unstructured.Unstructured
	problem  string
	// requests are by name, nil while their kind is not served. former are the requests of earlier templates, by the UID of an owner.
	requests map[string]*unstructured.Unstructured
	former   map[types.UID][]*unstructured.Unstructured

	ledger      healthcheck.Ledger
	ledgerKnown bool
	rivals      []rival              // that judge Machines before this check
	shared      []healthcheck.Shared // the Machines that they judge
	decision    healthcheck.Decision
	// decided: the plan was made and its ledger is stored, or there is no plan because the selector is invalid.
	decided bool
	// restricted is why remediation has stopped in this pass: the note of an event, which is recorded when the status is written.
	restricted string
}

// member is a Machine that the check selects.
type member struct {
	object client.Object
	state  *contract.MachineState
	facts  healthcheck.Facts
	plan   healthcheck.Machine
	// request is the request for its external remediation, or nil; former are the requests of earlier templates of the check.
	request *unstructured.Unstructured
	former  []*unstructured.Unstructured
}

// selectorOf returns the selector of a check's Machines, all of its cluster. A check without a selector selects none.
func selectorOf(check *contract.HealthCheckState) (labels.Selector, error) {
	selector := check.Selector
	if selector != nil && check.ClusterName != "" {
		selector = metav1.CloneSelectorAndAddLabel(selector, contract.ClusterNameLabel, check.ClusterName)
	}
	return metav1.LabelSelectorAsSelector(selector)
}

// machinesStep reads the Machines of the check, and judges them. Nothing is decided without the Machines or with an invalid selector.
func machinesStep(ctx context.Context, s *scope) (result, error) {
	selector, err := selectorOf(&s.State)
	if err != nil { // nothing changes until it is corrected, which is an event
		s.decided = true
		s.decision.Reason, s.decision.Message = ReasonSelectorUnreadable, "the selector cannot be read: "+err.Error()+": nothing is remediated"
		return result{Stop: true}, nil //nolint:nilerr // the decision reports it
	}
	list := engine.NewList(s.env.kinds.Machine)
	if err := s.env.frame.Ports.Cache.List(ctx, list, client.InNamespace(s.State.Key.Namespace),
		client.MatchingLabelsSelector{Selector: selector}, client.UnsafeDisableDeepCopy); err != nil {
		return result{Stop: true}, fmt.Errorf("list %s objects: %w", s.env.kinds.Machine.GVK.Kind, err)
	}
	if err := s.readRivals(ctx); err != nil {
		return result{Stop: true}, err
	}
	stored := s.State.Annotations[healthcheck.LedgerAnnotation]
	s.ledger, s.ledgerKnown = healthcheck.ParseLedger(stored, s.State.UID)
	s.ledgerKnown = s.ledgerKnown || stored == "" && !s.State.ExpectedMachines.Found() // a check without a status has lost no ledger
	if err := s.readRequests(ctx); err != nil {
		return result{Stop: true}, err
	}
	facts := s.facts()
	err = engine.EachObject(list, func(obj client.Object) {
		selects := func(r rival) bool { return r.selector.Matches(labels.Set(obj.GetLabels())) }
		if at := slices.IndexFunc(s.rivals, selects); at >= 0 {
			s.shared = append(s.shared, healthcheck.Shared{By: s.rivals[at].name, Created: obj.GetCreationTimestamp().Time})
			return
		}
		m := &member{object: obj, state: &contract.MachineState{}}
		unreadable := s.env.kinds.Machine.Adapter.Read(obj, m.state)
		if unreadable != nil { // the metadata remains
			*m.state = contract.MachineState{}
			m.state.From(obj)
		}
		s.judge(m, facts, unreadable == nil)
		s.members = append(s.members, m)
	})
	slices.SortFunc(s.members, func(a, b *member) int { return cmp.Compare(a.plan.Name, b.plan.Name) })
	stops := err != nil
	if s.nodesErr != nil && !cluster.IsUnread(s.nodesErr) {
		err = errors.Join(err, s.nodesErr)
	}
	return result{Stop: stops}, err
}

// facts returns the facts that the Machines of the check share.
func (s *scope) facts() healthcheck.Facts {
	checks := s.env.options.Checks(&s.State)
	f := healthcheck.Facts{Checks: &checks, Now: s.Now}
	if of := s.env.ports.ReachOf; of != nil {
		f.Reach = of(s.ClusterKey())
	}
	if f.Reach.Silent {
		s.Requeue(reachRetry)
	}
	if s.env.frame.Ports.ClusterOf != nil && s.State.ClusterName != "" {
		f.Cluster = &s.Cluster.State // the zero state if there is none
	}
	return f
}

// judge fills the plan's input for a Machine.
func (s *scope) judge(m *member, shared healthcheck.Facts, readable bool) {
	state := m.state
	m.plan = healthcheck.Machine{
		Name: state.Key.Name, UID: state.UID, Created: state.Created,
		Deleting: !state.Deleting.IsZero(), Domain: cmp.Or(state.FailureDomain, state.WantedFailureDomain),
		Marked: engine.HasStatus(state.Conditions, contract.ConditionOwnerRemediated, metav1.ConditionFalse),
		Failed: engine.HasStatus(state.Conditions, contract.ConditionHealthCheckSucceeded, metav1.ConditionFalse),
	}
	if owner := metav1.GetControllerOfNoCopy(m.object); owner != nil {
		m.plan.Group = cmp.Or(state.Labels[contract.DeploymentNameLabel], string(owner.UID))
	}
	s.findRequests(m)
	if !readable {
		m.plan.Verdict = healthcheck.Verdict{Reason: contract.ReasonInspectionFailed, Suspect: true}
		return
	}
	m.facts = shared
	f := &m.facts
	f.Machine = state
	var nodes noderef.Lookup
	if w := s.workload; s.nodesErr == nil && w.Nodes != nil && w.Nodes.HasSynced() && w.Recognize(&state.Metadata) == nil {
		nodes = w.Nodes
	}
	if f.Node, f.NodeState = healthcheck.Find(state, nodes, s.env.options.Matching); f.Node != nil {
		m.plan.Domain = cmp.Or(m.plan.Domain, f.Node.Labels[corev1.LabelTopologyZone])
	}
	m.plan.Verdict = healthcheck.Evaluate(*f)
	m.plan.Verdict.Unjudged = m.plan.Verdict.Unjudged || nodes == nil && m.plan.Verdict.Reason == healthcheck.ReasonNodeUnread
}

// findRequests finds the requests for a Machine, of the check's template and of former ones. Such a request marks the Machine.
func (s *scope) findRequests(m *member) {
	owns := func(ref metav1.OwnerReference) bool { return ref.UID == m.state.UID }
	if request := s.requests[m.state.Key.Name]; request != nil && slices.ContainsFunc(request.GetOwnerReferences(), owns) {
		m.request = request
	}
	for _, request := range s.former[m.state.UID] { // a request with another name is not the check's
		if request.GetName() == m.state.Key.Name {
			m.former = append(m.former, request)
		}
	}
	if former := len(m.former) > 0; former || s.external() {
		m.plan.Marked = former || m.request != nil
	}
}

// reachRetry is the delay before an unresponsive API server is checked again.
const reachRetry = 10 * time.Second

// confirmUnhealthy confirms with the API server that the Node of a Machine that is to be marked is unhealthy or gone: the cache may be
// behind, and a marked Machine is destroyed. It makes no request for a verdict that does not concern the Node.
func (s *scope) confirmUnhealthy(ctx context.Context, m *member) (bool, error) {
	if reason := m.plan.Verdict.Reason; reason != healthcheck.ReasonUnhealthyNode && reason != healthcheck.ReasonNodeDeleted {
		return true, nil
	}
	facts := m.facts
	gone, err := s.workload.IsGone(ctx, m.state.Node.Name, func(live *corev1.Node) bool {
		facts.Node, facts.NodeState = healthcheck.Find(m.state, noderef.BuildIndex([]*corev1.Node{live}), s.env.options.Matching)
		return facts.NodeState != healthcheck.NodeGone
	})
	switch {
	case cluster.IsUnread(err):
		return false, nil
	case err != nil:
		return false, err
	}
	return gone || healthcheck.Evaluate(facts).Class == healthcheck.Unhealthy, nil
}
