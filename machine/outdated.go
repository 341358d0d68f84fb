package machine

import (
	"context"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/noderef/propagate"
)

// outdatedTaint asks schedulers to prefer Nodes that are not about to be replaced. Rule: Cluster API proposal
// 20230522, "NodeOutdatedRevisionTaint".
func outdatedTaint() corev1.Taint {
	return corev1.Taint{Key: "node.cluster.x-k8s.io/outdated-revision", Effect: corev1.TaintEffectPreferNoSchedule}
}

// decideOutdated reports whether a Node should have the taint: its MachineSet has an older revision than its MachineDeployment. known is
// false while a revision is unknown; then the taint stays as it is.
func decideOutdated(r *Rollout) (outdated, known bool) {
	if r.Unread {
		return false, false
	}
	if !r.Found {
		return false, true
	}
	set, ok := revisionOf(&r.Set.Metadata)
	deployment, ok2 := revisionOf(&r.Deployment.Metadata)
	return set < deployment, ok && ok2
}

// revisionOf returns 0 without a revision, and false for one that is not a number.
func revisionOf(m *contract.Metadata) (int64, bool) {
	text, found := m.Annotations[contract.RevisionAnnotation]
	if !found {
		return 0, true
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}

// markOutdated adds the taint of an outdated revision to the desired state of a Node, or its absence. The error of a failed lookup is
// reported with the condition UpToDate.
func (s *Scope) markOutdated(ctx context.Context, d *propagate.Desired) {
	found, err := s.rollout(ctx)
	if err != nil {
		return
	}
	outdated, known := decideOutdated(found)
	switch {
	case !known:
	case outdated: // not recorded as managed by the Machine, because it is not
		d.Taints = append(d.Taints, propagate.Taint{Taint: outdatedTaint(), Propagation: propagate.WhenMissing})
	default:
		d.WithoutTaints = append(d.WithoutTaints, outdatedTaint())
	}
}
