package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/internal/patch"
)

// reportedFor is how long the drain reports that others undo the cordon.
const reportedFor = 2 * time.Minute

// cordon is the state of the cordon of a Node. The zero value is a Node that was not cordoned yet.
type cordon struct {
	since time.Time // the first Step that saw the cordon
	holds bool      // the last Step saw the cordon, or the API server accepted it after that
	// first and last are when others made the Node schedulable again; zero some time after the last one.
	first, last time.Time
	// undone is set while they do that each time that the Node is cordoned, which then is put off. Only then may a drain end without the
	// cordon.
	undone   *patch.UndoneError
	reported bool // in an Event
}

// see updates the state from the Node of a Step; behind means that the Node is older than the last cordon.
func (c *cordon) see(unschedulable, behind bool, now time.Time) {
	if now.Sub(c.last) >= reportedFor {
		c.undone, c.first, c.last = nil, time.Time{}, time.Time{}
	}
	if c.holds && !unschedulable && !behind {
		c.first, c.last = cmp.Or(c.first, now), now
	}
	c.holds = unschedulable || c.holds && behind
	switch {
	case !unschedulable && c.undone == nil:
		c.since = time.Time{}
	case c.since.IsZero(), c.since.After(now): // or the clock was set back
		c.since = now
	}
}

// putOff records that the Node cannot be cordoned now, because others undo it.
func (c *cordon) putOff(undone *patch.UndoneError, now time.Time) {
	c.undone, c.first, c.last = undone, cmp.Or(c.first, now), now
	if c.since.IsZero() {
		c.since = now
	}
}

// cordon cordons a schedulable Node, also after others have uncordoned it. The pauses grow when they do that repeatedly.
func (r *Runner) cordon(ctx context.Context, ns *nodeState, node *corev1.Node) error {
	now, behind := r.cfg.Clock.Now(), r.cordons.Behind(node)
	r.mu.Lock()
	ns.cordon.see(node.Spec.Unschedulable, behind, now)
	ns.listedAgain = ns.listedAgain && !ns.cordon.since.IsZero()
	r.mu.Unlock()
	if node.Spec.Unschedulable || behind {
		return nil
	}
	err := r.setUnschedulable(ctx, node)
	r.mu.Lock()
	defer r.mu.Unlock()
	if undone, is := errors.AsType[*patch.UndoneError](err); is {
		ns.cordon.putOff(undone, now)
		return nil
	}
	ns.cordon.holds = err == nil
	return err
}

// report adds to a result that others make the Node schedulable again.
func (c *cordon) report(node string, result *Result, now time.Time) {
	if c.last.IsZero() || result.Done {
		return
	}
	by := ""
	if c.undone != nil {
		by = ", several times"
		if c.undone.By != "" {
			by += " by " + c.undone.By
		}
		if at := c.last.Add(c.undone.After); at.After(now) {
			result.againAt(at, now)
		}
	}
	b := drain.Blocker{
		Node: node, Reason: drain.ReasonUncordoned, Since: c.first,
		Message: "the Node was made schedulable again during its drain" + by + "; it is cordoned again, later each time: stop the other writer",
	}
	result.Blockers = append(result.Blockers, b)
	if !c.reported {
		c.reported, result.Event = true, &b
	}
	result.Message = strings.Trim("* "+b.Message+"\n"+result.Message, "\n")
}

// setUnschedulable writes one field, with a test of the UID. It omits the resource version, so that status writes of the kubelet cause no
// conflict.
func (r *Runner) setUnschedulable(ctx context.Context, node *corev1.Node) error {
	body, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": node.UID},
		{"op": "add", "path": "/spec/unschedulable", "value": true},
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.CallTimeout)
	defer cancel()
	target := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}
	err = r.cordons.PatchThrough(ctx, r.cfg.Nodes, target, client.RawPatch(types.JSONPatchType, body))
	if err != nil {
		return fmt.Errorf("cordon node %s: %w", node.Name, err)
	}
	return nil
}
