package machinepool

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/drain/runner"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

// drain continues the drains of Nodes, and returns how many are not finished. All Nodes are cordoned first, so that no pod moves from one
// leaving Node to another. Nodes that are drained, or whose limit is reached, get the annotation contract.DrainedAnnotation.
func (p *Scope) drain(ctx context.Context, nodes []*corev1.Node) (left int, err error) {
	p.mem().workload = p.workload
	err = p.beginDrains(ctx, nodes)
	keep := sets.New[string]()
	for _, node := range nodes {
		over, failed := p.advance(ctx, node)
		if isOld(failed) || cluster.IsUnread(failed) {
			p.Requeue(engine.ConflictRetry)
			failed = nil
		}
		err = errors.Join(err, failed)
		if !over {
			keep.Insert(node.Name)
		}
	}
	p.mem().release(keep)
	return len(keep), err
}

// advance continues the drain of one Node, and reports whether it is finished and the Node has the annotation. The limit counts from the
// start that is recorded on the Node.
func (p *Scope) advance(ctx context.Context, node *corev1.Node) (bool, error) {
	if p.isYetToBegin(node) || p.env.frame.Writer.Behind(node) {
		return false, nil // its event is on the way, and may show that its marks were removed
	}
	began, _ := p.drainStarted(node)
	limit := p.State.Template.NodeDrainTimeout.Or(0)
	timeIsUp := p.over(began, limit)
	if !timeIsUp {
		if empty, err := p.empties(ctx, node, began); !empty || err != nil {
			return false, err
		}
	}
	if err := p.markDrained(ctx, node); err != nil {
		return false, err
	}
	if timeIsUp {
		p.warn(EventDrainFailed, "Node %s was not drained within %s: going on without", node.Name, limit)
	} else {
		p.event(EventNodeDrained, "success draining Node %s", node.Name)
	}
	return true, nil
}

// empties continues the drain of a Node that began at a time, and reports whether there are no Pods and volumes left to wait for.
func (p *Scope) empties(ctx context.Context, node *corev1.Node, began time.Time) (bool, error) {
	p.mem().draining[node.Name] = p.mem().draining[node.Name] // zero until its volumes are waited for
	policy := p.env.options.Policy
	result, err := p.workload.Drainer.Step(ctx, runner.Request{
		Node: node, Owner: p.State.Key, Rules: policy.DrainRules, Policy: policy.DrainPolicy, StartedAt: began,
	})
	if err != nil {
		return false, fmt.Errorf("drain Node %s: %w", node.Name, err)
	}
	if result.Event != nil {
		p.warn(eventNodeUncordoned, "Node %s: %s", node.Name, result.Event.Message)
	}
	p.Requeue(result.RequeueAfter)
	if !result.Done {
		p.awaits(node, result.Message)
		return false, nil
	}
	return p.volumesGone(ctx, node)
}

// isMarkedDrained reports whether a Node has the mark that it was drained.
func isMarkedDrained(node *corev1.Node) bool {
	return node.Annotations[contract.DrainedAnnotation] == string(node.UID)
}

// volumesGone reports whether a Node without pods has no volume to wait for: if an instance is deleted with a volume attached, the pods'
// replacements wait for that volume for minutes. Rule: Cluster API's Machine controller.
func (p *Scope) volumesGone(ctx context.Context, node *corev1.Node) (bool, error) {
	if p.workload.Volumes == nil || p.excludes(contract.ExcludeVolumeDetach) {
		return true, nil
	}
	limit := p.State.Template.NodeVolumeDetachTimeout.Or(0)
	began := cmp.Or(p.mem().draining[node.Name], p.Now)
	p.mem().draining[node.Name] = began
	if p.over(began, limit) { // whether volumes can be read or not
		p.warn(eventVolumesLeft, "Volumes of Node %s were not detached within %s: going on without", node.Name, limit)
		return true, nil
	}
	result, err := p.workload.Volumes.StepVolumes(ctx, runner.Request{
		Node: node, Owner: p.State.Key, Rules: p.env.options.Policy.DrainRules, StartedAt: began,
	}, limit)
	p.Requeue(result.RequeueAfter)
	if err != nil {
		result.Message = engine.Bounded("* "+err.Error(), engine.MaxNoteLength)
		err = fmt.Errorf("wait for the volumes of Node %s: %w", node.Name, err)
	}
	if !result.Done {
		p.awaits(node, result.Message)
	}
	return result.Done, err
}

// awaits stores what the drain of a Node waits for, if it is the first one.
func (p *Scope) awaits(node *corev1.Node, what string) {
	if p.waiting == "" && what != "" {
		p.waiting = "; waiting for Node " + node.Name + ":" + engine.Indented(what)
	}
}

// cordonedByPool is the suffix of contract.DrainStartedAnnotation on a Node that a pool has cordoned because its instance was leaving. A
// Node without it is not uncordoned when its instance stays.
const cordonedByPool = " cordoned"

// hasMark reports whether a Node has an annotation of a leaving Node.
func hasMark(node *corev1.Node) bool {
	return metav1.HasAnnotation(node.ObjectMeta, contract.DrainStartedAnnotation) ||
		metav1.HasAnnotation(node.ObjectMeta, contract.DrainedAnnotation)
}

// drainStarted returns the recorded start of a Node's drain, zero before, and whether the pool cordoned the Node. A start in the future is
// ignored, so that the drain begins anew: a process whose clock was ahead has recorded it, and the limit would end as much later.
func (p *Scope) drainStarted(node *corev1.Node) (at time.Time, ours bool) {
	text, ours := strings.CutSuffix(node.Annotations[contract.DrainStartedAnnotation], cordonedByPool)
	at, err := time.Parse(time.RFC3339, text)
	if err != nil || contract.IsAhead(at, p.Now) {
		at = time.Time{}
	}
	return at, ours && err == nil
}

// isYetToBegin reports whether the start of a Node's drain, from which every process counts the limit, is not recorded, or the pool must
// cordon the Node. The first cordon is the pool's, with its mark. After that, the Drainer handles uncordoned Nodes, unless the Node is
// marked as drained: that mark must be removed in the same patch, or the provider deletes an instance that may have Pods again.
func (p *Scope) isYetToBegin(node *corev1.Node) bool {
	began, ours := p.drainStarted(node)
	return began.IsZero() || !node.Spec.Unschedulable && (!ours || isMarkedDrained(node))
}

// beginDrains records the start of drains on Nodes, and cordons the Nodes, in one patch for each.
func (p *Scope) beginDrains(ctx context.Context, nodes []*corev1.Node) error {
	due := slices.DeleteFunc(slices.Clone(nodes), func(node *corev1.Node) bool {
		return !p.isYetToBegin(node) || p.env.frame.Writer.Behind(node)
	})
	return p.eachNode(due, func(node *corev1.Node) error {
		began, ours := p.drainStarted(node)
		record, spec := cmp.Or(began, p.Now).UTC().Format(time.RFC3339), map[string]any{}
		if !node.Spec.Unschedulable {
			ours, spec["unschedulable"] = true, true
		}
		if ours {
			record += cordonedByPool
		}
		return p.writeMarks(ctx, node, map[string]any{contract.DrainStartedAnnotation: record, contract.DrainedAnnotation: nil}, spec)
	})
}

// markDrained marks a Node as drained, so that the provider may delete the instance.
func (p *Scope) markDrained(ctx context.Context, node *corev1.Node) error {
	return p.writeMarks(ctx, node, map[string]any{contract.DrainedAnnotation: string(node.UID)}, nil)
}

// removeMarks removes the marks of a Node, and uncordons it if the pool cordoned it.
func (p *Scope) removeMarks(ctx context.Context, node *corev1.Node) error {
	spec := map[string]any{}
	if _, ours := p.drainStarted(node); ours {
		spec["unschedulable"] = nil
	}
	return p.writeMarks(ctx, node, map[string]any{contract.DrainStartedAnnotation: nil, contract.DrainedAnnotation: nil}, spec)
}

// writeMarks writes annotations and the spec of a Node on the version that was read, so that it does not overwrite another writer who
// removes its marks or uncordons it.
func (p *Scope) writeMarks(ctx context.Context, node *corev1.Node, annotations, spec map[string]any) error {
	body := map[string]any{"metadata": map[string]any{
		"uid": node.UID, "resourceVersion": node.ResourceVersion, "annotations": annotations,
	}}
	if len(spec) > 0 {
		body["spec"] = spec
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return p.workload.PatchNode(ctx, p.env.frame.Writer, node, types.MergePatchType, raw)
}
