package machine

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/drain/runner"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

// drainStage drains the Node of a Machine, once. Its start is stored before anything is evicted.
func drainStage() Stage {
	return Stage{
		Name: StepDrain, Reason: contract.ReasonDrainingNode, Excluded: (*Scope).whyNotDrained, Limit: (*Scope).drainLimit,
		Needs: (*Scope).drainNeeds, Run: drainNode, done: (*Scope).isDrained, care: true, nodes: true,
		confirm: (*Scope).confirmForNode, left: EventNodeNotDrained, failed: EventDrainFailed, action: actionDrainNode,
		failure: "error draining Machine's node %q: %s: the deletion continues without",
		exits:   "set the annotation " + contract.ExcludeDrain + " or a timeout of the drain",
	}
}

// whyNotDrained returns why the Node is not drained. It is empty when the Node is drained, or when no drain is left to do. A Node whose
// instance is gone or being deleted cannot be drained. Once the Machine has begun to wait for pre-terminate hooks, the drain is over,
// because the hooks may have shut down the cluster's API server (kubernetes-sigs/cluster-api#11591). A Node that has registered again since
// it was drained may have pods again.
func (s *Scope) whyNotDrained() string {
	if why := s.whyNoNodeStage(contract.ExcludeDrain, s.Workload.Drainer == nil); why != "" {
		return why
	}
	drained := s.deletion.HasEnded(StepDrain, s.deletion.Node) // the Node may have registered again since
	begun := drained || !s.begins(StepDrain).IsZero()          // the drain was not skipped; its completion may not have been stored
	switch {
	case s.waitsForHooks() && (!begun || drained && s.Node.Node != nil && s.Node.Node.UID != s.deletion.Node):
		return "pre-terminate hooks were waited for already when it registered"
	case s.instanceLeaves() && !begun:
		return "the instance is gone or being deleted already"
	case s.isDrained():
		return ""
	case s.NodesSynced && s.Node.Outcome == noderef.Stale:
		return s.nodeDoubt()
	}
	return ""
}

// whyNoNodeStage returns why every stage about the Node is skipped: an annotation excludes the stage, this controller cannot run it, the
// Node is neither drained nor deleted, or the instance no longer exists.
func (s *Scope) whyNoNodeStage(annotation string, impossible bool) string {
	_, excluded := s.State.Annotations[annotation]
	switch {
	case s.decidedCare() == careNone:
		return s.careReason
	case excluded:
		return "the Machine has the annotation " + annotation
	case s.NodesErr == nil && impossible:
		return "this controller drains no Nodes"
	case s.InstanceGone:
		return "the machine no longer exists"
	}
	return ""
}

// waitsForHooks reports whether the Machine has begun to wait for pre-terminate hooks.
func (s *Scope) waitsForHooks() bool { return !s.begins(StepPreTerminateHooks).IsZero() }

// instanceLeaves reports whether the instance of the Machine, or its infrastructure object, is gone or being deleted.
func (s *Scope) instanceLeaves() bool {
	return s.infrastructureGone || s.instanceGoing || s.isGoing(s.Infrastructure) || s.Infrastructure.Deleting()
}

// nodeUID returns the UID of the Node to drain: the matched Node, or the recorded Node while the Nodes are unread.
func (s *Scope) nodeUID() types.UID {
	if s.NodesSynced && s.Node.Found() {
		return s.Node.Node.UID
	}
	return s.State.Node.UID
}

// isDrained reports whether no drain is left to do: it has ended, the instance is gone or being deleted, or there is no Node.
func (s *Scope) isDrained() bool {
	switch {
	case s.waitsForHooks(), s.instanceLeaves(), s.deletion.HasEnded(StepDrain, s.nodeUID()):
		return true
	case !s.NodesSynced:
		return false
	}
	return s.Node.Outcome == noderef.NotFound || s.Node.Outcome == noderef.NoProviderID && !s.disowned()
}

// drainNeeds returns what the drain waits for. A Node that several Machines claim, or that cannot be proven to be the Machine's, is not
// drained until a person has decided. If the infrastructure is unread after the drain began, it may be gone: an earlier process may have
// finished the drain, with the deletion of the infrastructure as the only record.
func (s *Scope) drainNeeds() string {
	switch {
	case isUnreadYet(s.Infrastructure) && !s.begins(StepDrain).IsZero():
		return "the infrastructure could not be read yet" + because(s.Infrastructure.Problem)
	case !s.NodesSynced:
		return ""
	case s.Node.Outcome == noderef.Unknown:
		return ambiguous(s.Node, s.State.ProviderID)
	}
	return s.nodeDoubt()
}

// nodeDoubt returns why the Node does not count as the Machine's own. It is empty when the Node does, or when there is no Node.
func (s *Scope) nodeDoubt() string {
	switch s.Node.Outcome {
	case noderef.Stale:
		return "the Node of that name is another machine's"
	case noderef.Claimed:
		return claimed(s.Node, &s.State)
	case noderef.Ambiguous:
		return ambiguous(s.Node, s.State.ProviderID)
	case noderef.NoProviderID:
		if s.disowned() {
			return "Node " + s.State.Node.Name + " is recorded, and the Machine has no provider ID, so nothing shows that the Node " +
				"is still its own: give it back its provider ID, which its contract.Kind has to write and read"
		}
	case noderef.Unknown, noderef.NotFound, noderef.Matched, noderef.Readopted:
	}
	return ""
}

// confirmForNode confirms with the API server, before a stage that needs the Node is skipped, that objects missing from the caches are
// gone: the infrastructure object, and the Node unless the drain is over.
func (s *Scope) confirmForNode(ctx context.Context) error {
	if _, err := s.confirmInfrastructureGone(ctx); err != nil {
		return err
	}
	if !s.instanceLeaves() && !s.waitsForHooks() {
		s.confirmNoNode(ctx)
	}
	return nil
}

// drainNode makes one pass of the drain.
func drainNode(ctx context.Context, s *Scope) (Result, error) {
	if begins := s.begin(StepDrain); begins || s.Node.Record {
		return s.recordFirst(contract.ReasonDrainingNode,
			fmt.Sprintf("Drain not completed yet (started at %s)", s.begins(StepDrain).Format(time.RFC3339)))
	}
	return s.drain(ctx)
}

// disowned reports whether the recorded Node exists while the Machine has no provider ID, for example because its kind has no field for it
// and the step that sets it runs only in InRunning.
func (s *Scope) disowned() bool {
	if !s.NodesSynced || s.Node.Outcome != noderef.NoProviderID || s.State.Node.Name == "" {
		return false
	}
	node := s.Workload.Nodes.ByName(s.State.Node.Name)
	return node != nil && (s.State.Node.UID == "" || node.UID == s.State.Node.UID)
}

// drain continues the drain of the Node.
func (s *Scope) drain(ctx context.Context) (Result, error) {
	var result runner.Result
	rules, err := s.drainRules(ctx)
	if err == nil {
		s.watchNode()
		result, err = s.Workload.Drainer.Step(ctx, runner.Request{
			Node: s.Node.Node, Owner: s.State.Key, Rules: rules, Policy: s.env.options.Policy.DrainPolicy, StartedAt: s.begins(StepDrain),
			PoweredOff: s.PoweredOff,
		})
	}
	if err != nil {
		return s.nodeFailed(contract.ReasonDrainingNode, err.Error(), "drain", err)
	}
	if result.Event != nil {
		s.addEvent(corev1.EventTypeWarning, EventNodeUncordoned, actionDrainNode, "Node "+s.Node.Node.Name+": "+result.Event.Message)
	}
	if !result.Done {
		message := fmt.Sprintf("Drain not completed yet (started at %s):\n%s", s.begins(StepDrain).Format(time.RFC3339), result.Message)
		return s.waitFor(contract.ReasonDrainingNode, strings.TrimSpace(message), result.RequeueAfter), nil
	}
	s.end(StepDrain, s.Node.Node.UID)
	s.addEvent(corev1.EventTypeNormal, EventNodeDrained, actionDrainNode, fmt.Sprintf("success draining Machine's node %q", s.State.Node.Name))
	return Result{}, nil
}

// nodeFailed waits after an error about the Node. A connection that is lost during a pass is not an error.
func (s *Scope) nodeFailed(reason, message, what string, err error) (Result, error) {
	if cluster.IsUnread(err) {
		return s.waitFor(reason, message, engine.ConflictRetry), nil
	}
	return s.Wait(reason, message), fmt.Errorf("%s Node %s: %w", what, s.Node.Node.Name, err)
}

// drainRules returns the rules for the pods of this Machine's Node; nil means the rules of the Drainer.
func (s *Scope) drainRules(ctx context.Context) ([]drain.Rule, error) {
	if rules := s.env.options.Policy.DrainRules; rules != nil {
		return rules(ctx, s)
	}
	return nil, nil
}

// watchNode records in memory that this process watches the Node's pods or volumes.
func (s *Scope) watchNode() {
	name, w := s.State.Node.Name, s.Workload
	s.memory.watch(watchedNode{name: name, release: func() { w.Release(name) }})
}

// releaseNode stops watching the pods and the volumes of the Node. It must not be called while the pass waits for them, because they would
// be listed again. It does not release a Node that now belongs to another Machine, which may be draining it.
func (s *Scope) releaseNode() {
	watched := s.memory.watched.release != nil
	if s.memory.stopWatching(); !watched && s.Node.Outcome != noderef.Stale && s.Node.Outcome != noderef.Claimed {
		s.Workload.Release(s.State.Node.Name) // a step of the embedder may have begun
	}
}

// releaseIfPaused cancels the queued evictions of the drain if the Machine or its Cluster requests a pause. A Cluster that is unread for a
// short time does not restart the drain.
func (s *Scope) releaseIfPaused() {
	if s.Deleting() && s.IsTrue(contract.ConditionPaused) {
		s.releaseNode()
	}
}

// drainRuleGVK is the kind of MachineDrainRules, unless the Machines have another version of Cluster API.
var drainRuleGVK = schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "MachineDrainRule"}

// MachineDrainRules returns a Policy.DrainRules that applies the MachineDrainRules of cluster.x-k8s.io in the Machine's namespace: the
// first rule by name that selects both the Machine and the pod decides (see drain.MachineDrainRules). It reads them from the Reconciler's
// cache, in v1beta2 or in the version of Cluster API's Machines that are reconciled, watches them, and makes no request in a pass. Without
// their CRD there are no rules; a CRD that is installed later takes effect.
//
// Cluster selectors are matched against the result of Ports.ClusterOf, and namespace selectors against the labels that the Drainer reports.
// If a rule has a namespace selector, the Drainer must have the method NamespaceLabels of runner.Runner. A pod that an invalid rule may
// select, or whose labels were not read, is not evicted: the drain waits, and its message names the rule. While the rules are not listed
// yet, the error matches cluster.ErrNotSynced.
//
// The function join combines the MachineDrainRules of one Machine with other rules, such as those of drain.KubectlRules or of a filter of
// package drain/kubectl; namespaces is nil if no MachineDrainRule selects namespaces by labels. drain.ClusterAPIRules decides as Cluster
// API.
func MachineDrainRules(
	join func(ofMachine drain.MachineDrainRules, namespaces drain.NamespaceLabels) []drain.Rule,
) func(context.Context, *Scope) ([]drain.Rule, error) {
	return func(ctx context.Context, s *Scope) ([]drain.Rule, error) {
		read, err := s.readDrainRules(ctx)
		if err != nil {
			return nil, fmt.Errorf("read MachineDrainRules: %w", err)
		}
		var namespaces drain.NamespaceLabels
		if read.NeedNamespaces() {
			if namespaces, err = s.Workload.NamespaceLabels(ctx); err != nil {
				return nil, err
			}
		}
		return join(read.For(s.drainedMachine()), namespaces), nil
	}
}

// drainedMachine returns the Machine as the input of drain rules. Without Ports.ClusterOf, the Cluster is unread.
func (s *Scope) drainedMachine() drain.DrainedMachine {
	m := drain.DrainedMachine{Namespace: s.State.Key.Namespace, Labels: s.State.Labels}
	switch {
	case s.Cluster.Presence == external.Present:
		m.ClusterLabels = s.Cluster.State.Labels
	case s.State.ClusterName != "" && s.Cluster.Presence != external.Absent:
		m.ClusterUnread = true
	}
	return m
}

// readDrainRules reads all rules of the Machine's namespace, including invalid ones.
func (s *Scope) readDrainRules(ctx context.Context) (drain.MachineDrainRules, error) {
	gvk := s.env.drainRuleGVK()
	served, err := s.env.watchDrainRules(ctx, gvk)
	if err != nil || !served {
		return nil, err
	}
	var list unstructured.UnstructuredList
	list.SetGroupVersionKind(gvk)
	err = s.env.ports.Cache.List(ctx, &list, client.InNamespace(s.State.Key.Namespace), client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, err
	}
	return drain.ReadMachineDrainRules(list.Items), nil
}

// watchDrainRules watches the rules, and reports whether their CRD exists.
func (r *Reconciler) watchDrainRules(ctx context.Context, gvk schema.GroupVersionKind) (bool, error) {
	synced, err := r.frame.Tracker.Ensure(ctx, external.CRDMetadata())
	if err == nil && !synced {
		err = notListed(external.CRDGVK())
	}
	if err != nil {
		return false, err
	}
	err = r.ports.Cache.Get(ctx, types.NamespacedName{Name: contract.CRDName(gvk.GroupKind())}, external.CRDMetadata())
	if err != nil {
		return false, client.IgnoreNotFound(err)
	}
	kind := &unstructured.Unstructured{}
	kind.SetGroupVersionKind(gvk)
	synced, err = r.frame.Tracker.Ensure(ctx, kind)
	if err == nil && !synced {
		err = notListed(gvk)
	}
	return err == nil, err
}

func notListed(gvk schema.GroupVersionKind) error {
	return fmt.Errorf("%w: %s; if this lasts, look for missing list and watch permissions", cluster.ErrNotSynced, gvk.GroupKind())
}

// drainRuleGVK returns the kind of the rules for the Machines of this Reconciler.
func (r *Reconciler) drainRuleGVK() schema.GroupVersionKind {
	gvk := drainRuleGVK
	if r.kind.GVK.Group == gvk.Group {
		gvk.Version = r.kind.GVK.Version
	}
	return gvk
}
