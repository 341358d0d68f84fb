package runner_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/machinist-dev/machinist/fake"
)

// The second watch confirms the end of the drain.
func TestStore_ADrainReadsPodsWithTwoRequestsAndWithAListWhereTheServerStreamsNone(t *testing.T) {
	for name, tc := range map[string]struct {
		streams        bool
		lists, watches int
	}{"a server that streams lists": {true, 0, 2}, "one that does not": {false, 1, 2}} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, "n1")
			if !tc.streams { // it refuses the first watch as servers do that do not know sendInitialEvents
				c.store.FailNext(func(r fake.Request) bool { return r.Verb == "watch" && r.GVK.Kind == "Pod" },
					apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil))
			}
			c.deploy(2, policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromInt32(2))})
			c.store.ResetRequests()
			c.drain("n1")
			c.eventually("n1 is drained", func() bool { r, _ := c.last("n1"); return r.Done })
			count := func(verb string) int {
				return c.store.CountRequests(func(r fake.Request) bool { return r.Verb == verb && r.GVK.Kind == "Pod" && r.Code < 300 })
			}
			require.Equal(t, []int{tc.lists, tc.watches}, []int{count("list"), count("watch")})
		})
	}
}
