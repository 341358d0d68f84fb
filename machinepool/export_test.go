package machinepool

import (
	"cmp"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// PageExamples are the two examples of Cluster API's page on the MachinePool controller, as they stand there.
func PageExamples(t *testing.T) (bootstrap, infrastructure *unstructured.Unstructured) {
	t.Helper()
	return parse(t, pageBootstrap), parse(t, pageInfrastructure)
}

// SetLimits shortens the limits of the drains of pools; one that is zero stays.
func (r *Reconciler) SetLimits(draining int, stuck, unread time.Duration) {
	r.limits = limits{
		draining: cmp.Or(draining, r.limits.draining), stuck: cmp.Or(stuck, r.limits.stuck), unread: cmp.Or(unread, r.limits.unread),
	}
}
