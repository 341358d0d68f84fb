package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/internal/patch"
)

const (
	// reportedFor is how long the drain reports an uncordon by others.
	reportedFor = 2 * time.Minute
	// contestedAfter is the number of uncordons from which they count as deliberate.
	contestedAfter = 5
)

// cordon is the state of the cordon of a Node. The zero value is a Node that was not cordoned yet.
type cordon struct {
	since time.Time // the first Step that saw the cordon
	holds bool      // the last Step saw the cordon, or the API server accepted it after that
	// undone is how often others have made the Node schedulable again, between first and last. by lists those writers, from the Node's managed
	// fields.
	undone      int
	first, last time.Time
	by          string
	told        bool // reported in an Event
	// contested: the Node was uncordoned at least contestedAfter times, and the next cordon is delayed. Only then may a drain end without the
	// cordon.
	contested bool
	next      time.Duration // until the Node can be cordoned again; 0 for now
}

// see updates the state from the Node of a Step; behind means that the Node is older than the last cordon.
func (c *cordon) see(unschedulable, behind bool, now time.Time) {
	if c.contested = c.contested && now.Sub(c.last) < reportedFor; c.since.After(now) { // the clock was set back
		c.since = now
	}
	switch {
	case unschedulable:
		c.holds, c.next = true, 0
		if c.since.IsZero() {
			c.since = now
		}
	case c.holds && !behind:
		c.holds, c.undone, c.last = false, c.undone+1, now
		if c.first.IsZero() {
			c.first = now
		}
	}
	if !unschedulable && !c.contested {
		c.since = time.Time{}
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
	err := r.setUnschedulable(ctx, r.cfg.Nodes, node, true)
	undone := (*patch.UndoneError)(nil)
	putOff := errors.As(err, &undone)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch c := &ns.cordon; {
	case putOff:
		c.by, c.next, err = undone.By, undone.After, nil
		if c.contested = c.undone >= contestedAfter; c.contested && c.since.IsZero() {
			c.since = now
		}
	case err == nil:
		c.holds, c.next = true, 0
	}
	return err
}

// report adds to a result that others make the Node schedulable again.
func (c *cordon) report(node string, result *Result, now time.Time) {
	if c.undone == 0 || now.Sub(c.last) >= reportedFor || result.Done {
		return
	}
	times, by := "once", ""
	if c.undone > 1 {
		times = fmt.Sprintf("%d times", c.undone)
	}
	if c.by != "" {
		by = " by " + c.by
	}
	b := drain.Blocker{
		Node: node, Reason: drain.ReasonUncordoned, Since: c.first,
		Message: fmt.Sprintf("the Node was made schedulable again%s during its drain, %s since %s; it is cordoned again, later each time: "+
			"let the other one leave the Node alone", by, times, c.first.UTC().Format(time.RFC3339)),
	}
	result.Blockers = append(result.Blockers, b)
	if !c.told {
		c.told, result.Event = true, &b
	}
	result.Message = joinLines("* "+b.Message, result.Message)
	if c.next > 0 {
		result.RequeueAfter = min(result.RequeueAfter, c.next)
	}
}

// setUnschedulable writes one field, with a test of the UID. It omits the resource version, so that status writes of the kubelet cause no
// conflict.
func (r *Runner) setUnschedulable(ctx context.Context, through client.Writer, node *corev1.Node, to bool) error {
	verb := "uncordon"
	if to {
		verb = "cordon"
	}
	body, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": node.UID},
		{"op": "add", "path": "/spec/unschedulable", "value": to},
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.CallTimeout)
	defer cancel()
	target := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}
	err = r.cordons.PatchThrough(ctx, through, target, client.RawPatch(types.JSONPatchType, body))
	if isReplaced(err) {
		err = fmt.Errorf("%w: %w", errNodeReplaced, err)
	}
	if err != nil {
		return fmt.Errorf("%s node %s: %w", verb, node.Name, err)
	}
	return nil
}

// isReplaced reports whether the test of the UID failed. The API server also returns 422 for an invalid Node, but with causes.
func isReplaced(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details == nil || len(details.Causes) == 0
}
