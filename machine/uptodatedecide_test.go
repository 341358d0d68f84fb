package machine

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machineset/rollout"
	"github.com/machinist-dev/machinist/noderef/propagate"
)

// rolledOut is a rollout that is finished.
func rolledOut(change func(set, deployment *contract.MachineSpec, r *Rollout)) *Rollout {
	spec := contract.MachineSpec{
		Version: "v1.33.0", Bootstrap: contract.Ref{Group: "b", Kind: "KubeadmConfigTemplate", Name: "b1"},
		Infrastructure: contract.Ref{Group: "i", Kind: "AWSMachineTemplate", Name: "i1"}, WantedFailureDomain: "a",
	}
	r := &Rollout{Found: true}
	r.Set.Template.MachineSpec, r.Deployment.Template.MachineSpec = spec, spec
	if change != nil {
		change(&r.Set.Template.MachineSpec, &r.Deployment.Template.MachineSpec, r)
	}
	return r
}

func TestAMachineIsUpToDateWhenItsSetIsWhatItsDeploymentAsksFor(t *testing.T) {
	now := time.Unix(10_000, 0)
	not := func(message string) metav1.Condition {
		return engine.Condition(contract.ConditionUpToDate, metav1.ConditionFalse, contract.ReasonNotUpToDate, message)
	}
	updating := func(message string) metav1.Condition {
		return engine.Condition(contract.ConditionUpToDate, metav1.ConditionFalse, ReasonUpdating, message)
	}
	yes := engine.Condition(contract.ConditionUpToDate, metav1.ConditionTrue, contract.ReasonUpToDate, "")
	after := func(due, created time.Duration) *Rollout {
		return rolledOut(func(_, _ *contract.MachineSpec, r *Rollout) {
			r.Deployment.RolloutAfter, r.Set.Created = now.Add(due), now.Add(created)
		})
	}
	madeFor := func(at time.Duration) *Rollout { // by a clock that is ahead of the API server's
		r := after(-time.Minute, -time.Hour)
		r.Set.Annotations = rollout.MadeForAnnotations(now.Add(at))
		return r
	}
	for name, tc := range map[string]struct {
		facts upToDateFacts
		want  metav1.Condition
		again time.Duration
	}{
		"the same": {facts: upToDateFacts{Rollout: rolledOut(nil)}, want: yes},
		"everything is another": {
			facts: upToDateFacts{Rollout: rolledOut(func(_, d *contract.MachineSpec, _ *Rollout) {
				d.Version, d.Bootstrap.Name, d.Infrastructure.Name, d.WantedFailureDomain = "v1.34.0", "b2", "i2", "b"
			})},
			want: not("* Version v1.33.0, v1.34.0 required\n* KubeadmConfig is not up-to-date\n* AWSMachine is not up-to-date\n* Failure domain " +
				"a, b required")},
		"what is changed in place does not count": {
			facts: upToDateFacts{Rollout: rolledOut(func(_, d *contract.MachineSpec, r *Rollout) {
				d.MinReady, d.NodeDrainTimeout, d.ProviderID, d.ClusterName = contract.Some(time.Minute), contract.Some(time.Minute), "x", "c"
				d.ReadinessGates, d.Taints = []contract.ReadinessGate{{}}, []contract.Taint{{}}
				r.Deployment.Template.Labels = map[string]string{"a": "b"}
			})}, want: yes},
		"data of the user's own": {
			facts: upToDateFacts{Rollout: rolledOut(func(s, d *contract.MachineSpec, _ *Rollout) {
				s.Bootstrap, d.Bootstrap, d.DataSecretName = contract.Ref{}, contract.Ref{}, contract.Some("mine")
			})}, want: not("* spec.bootstrap.dataSecretName nil, mine required")},
		"a rollout is appointed": {facts: upToDateFacts{Rollout: after(time.Hour, -time.Hour)}, want: yes,
			again: time.Hour + time.Second},
		"it is due": {facts: upToDateFacts{Rollout: after(-time.Second, -time.Hour)},
			want: not("* MachineDeployment spec.rolloutAfter expired")},
		"the set is younger than that": {facts: upToDateFacts{Rollout: after(-time.Hour, -time.Minute)}, want: yes},
		"the set was made for that":    {facts: upToDateFacts{Rollout: madeFor(-time.Minute)}, want: yes},
		"the set was made for an earlier rollout": {facts: upToDateFacts{Rollout: madeFor(-2 * time.Minute)},
			want: not("* MachineDeployment spec.rolloutAfter expired")},
		"an update in place": {
			facts: upToDateFacts{Rollout: rolledOut(nil), Updating: engine.Condition("", metav1.ConditionTrue, "R", "half way")},
			want:  updating("* half way")},
		"an update that says nothing": {
			facts: upToDateFacts{Rollout: rolledOut(nil), Updating: engine.Condition("", metav1.ConditionTrue, "R", "")},
			want:  updating("* In-place update in progress")},
		"the kubelet is another": {facts: upToDateFacts{Rollout: rolledOut(nil), Version: "v1.33.0", KubeletVersion: "v1.32.1"},
			want: updating("* Node.status.nodeInfo.kubeletVersion v1.32.1, v1.33.0 required")},
		"the kubelet is of a distribution": {
			facts: upToDateFacts{Rollout: rolledOut(nil), Version: "v1.33.0", KubeletVersion: "v1.33.0+k3s1"}, want: yes},
		"no version is asked for":           {facts: upToDateFacts{Rollout: rolledOut(nil), KubeletVersion: "v1.32.1"}, want: yes},
		"the kubelet does not say anything": {facts: upToDateFacts{Rollout: rolledOut(nil), Version: "v1.33.0"}, want: yes},
	} {
		t.Run(name, func(t *testing.T) {
			tc.facts.Now = now
			got, again := decideUpToDate(tc.facts)
			if diff := cmp.Diff(tc.want, got); diff != "" || again != tc.again {
				t.Errorf("again after %s, want %s; -want +got:\n%s", again, tc.again, diff)
			}
		})
	}
}

func TestANodeOfAnOldRevisionIsMarkedAndOneWithoutARevisionIsLeftAlone(t *testing.T) {
	revisions := func(set, deployment string) *Rollout {
		return rolledOut(func(_, _ *contract.MachineSpec, r *Rollout) {
			r.Set.Annotations = map[string]string{contract.RevisionAnnotation: set}
			r.Deployment.Annotations = map[string]string{contract.RevisionAnnotation: deployment}
		})
	}
	marked := propagate.Desired{Taints: []propagate.Taint{{Taint: outdatedTaint(), Propagation: propagate.WhenMissing}}}
	cleared := propagate.Desired{}
	cleared.WithoutTaints = append(cleared.WithoutTaints, outdatedTaint())
	for name, tc := range map[string]struct {
		rollout *Rollout
		err     error
		want    propagate.Desired
	}{
		"older":                 {rollout: revisions("9", "10"), want: marked},
		"the newest":            {rollout: revisions("10", "10"), want: cleared},
		"no numbers":            {rollout: rolledOut(nil), want: cleared},
		"a number that is none": {rollout: revisions("x", "10")},
		"no deployment":         {rollout: &Rollout{}, want: cleared},
		"unread":                {rollout: &Rollout{Unread: true}},
		"a look that failed":    {rollout: &Rollout{}, err: context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			s := &Scope{env: &Reconciler{ports: Ports{RolloutOf: func(context.Context, *contract.MachineState) (Rollout, error) {
				asked++
				return *tc.rollout, tc.err
			}}}}
			var got propagate.Desired
			s.markOutdated(t.Context(), &got)
			s.markOutdated(t.Context(), &propagate.Desired{})
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			require.Equal(t, 1, asked, "once in a pass")
		})
	}
}

func TestUpToDateIsLeftToOthersWithoutRollouts(t *testing.T) {
	mine := contract.MachineState{Metadata: contract.Metadata{Labels: map[string]string{contract.DeploymentNameLabel: "md"}}}
	for name, tc := range map[string]struct {
		state   contract.MachineState
		stored  []metav1.Condition
		rollout Rollout
		err     error
		want    string // the reason that is asserted
	}{
		"no deployment":                {},
		"no deployment, and the label": {state: mine},
		"unread at first":              {state: mine, rollout: Rollout{Unread: true}, want: contract.ReasonInternalError},
		"unread later": {state: mine, rollout: Rollout{Unread: true},
			stored: []metav1.Condition{{Type: contract.ConditionUpToDate}}},
		"unread, of no deployment":         {rollout: Rollout{Unread: true}},
		"a look that failed":               {state: mine, err: context.Canceled, want: contract.ReasonInternalError},
		"measured":                         {state: mine, rollout: *rolledOut(nil), want: contract.ReasonUpToDate},
		"measured, without being labelled": {rollout: *rolledOut(nil), want: contract.ReasonUpToDate},
		"in a deletion": {rollout: *rolledOut(nil),
			state: contract.MachineState{Metadata: contract.Metadata{Deleting: time.Unix(1, 0), Labels: mine.Labels}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Scope{Scope: base{State: tc.state, Stored: tc.stored}, env: &Reconciler{
				ports: Ports{RolloutOf: func(context.Context, *contract.MachineState) (Rollout, error) { return tc.rollout, tc.err }},
			}}
			_, err := s.assertUpToDate(t.Context())
			require.ErrorIs(t, err, tc.err)
			got, _ := engine.Find(s.Asserted, contract.ConditionUpToDate)
			if got.Reason != tc.want {
				t.Errorf("want reason %q, got %+v", tc.want, got)
			}
		})
	}
}

func TestCountersAndReplicasOfADeploymentWakeNoMachine(t *testing.T) {
	rollouts := &Rollouts{
		sets:        contract.Unstructured(schema.GroupVersionKind{Kind: "MachineSet"}, contract.MachineSetV1Beta2()),
		deployments: contract.Unstructured(schema.GroupVersionKind{Kind: "MachineDeployment"}, contract.MachineDeploymentV1Beta2()),
	}
	spec := func(u *unstructured.Unstructured, value any, fields ...string) {
		u.SetGeneration(2)
		require.NoError(t, unstructured.SetNestedField(u.Object, value, append([]string{"spec"}, fields...)...))
	}
	before := &unstructured.Unstructured{Object: map[string]any{}}
	before.SetUID("u")
	before.SetResourceVersion("1")
	before.SetGeneration(1)
	before.SetLabels(map[string]string{contract.DeploymentNameLabel: "md", "a": "b"})
	before.SetAnnotations(map[string]string{contract.RevisionAnnotation: "1"})
	for name, tc := range map[string]struct {
		change func(*unstructured.Unstructured)
		same   bool
	}{
		"a counter": {func(u *unstructured.Unstructured) { u.SetResourceVersion("2") }, true},
		"a label": {func(u *unstructured.Unstructured) {
			u.SetLabels(map[string]string{contract.DeploymentNameLabel: "md", "a": "c"})
		}, true},
		"the replicas": {func(u *unstructured.Unstructured) { spec(u, int64(3), "replicas") }, true},
		"the template": {func(u *unstructured.Unstructured) { spec(u, "v1.36.3", "template", "spec", "version") }, false},
		"the revision": {func(u *unstructured.Unstructured) {
			u.SetAnnotations(map[string]string{contract.RevisionAnnotation: "2"})
		}, false},
		"the time that it was made for": {func(u *unstructured.Unstructured) {
			u.SetAnnotations(map[string]string{contract.RevisionAnnotation: "1", rollout.MadeForAnnotation: "2026-01-01T00:00:00Z"})
		}, false},
		"another deployment": {func(u *unstructured.Unstructured) {
			u.SetLabels(map[string]string{contract.DeploymentNameLabel: "other"})
		}, false},
		"another object": {func(u *unstructured.Unstructured) { u.SetUID("v") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			after := before.DeepCopy()
			tc.change(after)
			require.Equal(t, tc.same, sameRollout(before, after, rollouts.sameSet))
			require.Equal(t, tc.same, sameRollout(before, after, rollouts.sameDeployment))
		})
	}
	after := before.DeepCopy()
	spec(after, "2026-01-01T00:00:00Z", "rollout", "after")
	require.False(t, sameRollout(before, after, rollouts.sameDeployment), "a rollout was asked for")
}
