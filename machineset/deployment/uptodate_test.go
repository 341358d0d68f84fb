package deployment

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machineset/rollout"
)

// factsOf are those of a rollout that is finished, but for a change.
func factsOf(change func(set, deployment *contract.MachineSpec, f *upToDateFacts)) upToDateFacts {
	spec := contract.MachineSpec{
		Version: "v1.33.0", Bootstrap: contract.Ref{Group: "b", Kind: "KubeadmConfigTemplate", Name: "b1"},
		Infrastructure: contract.Ref{Group: "i", Kind: "AWSMachineTemplate", Name: "i1"}, WantedFailureDomain: "a",
	}
	f := upToDateFacts{Set: &contract.MachineSetState{}, Deployment: &contract.MachineDeploymentState{}}
	f.Set.Template.MachineSpec, f.Deployment.Template.MachineSpec = spec, spec
	if change != nil {
		change(&f.Set.Template.MachineSpec, &f.Deployment.Template.MachineSpec, &f)
	}
	return f
}

func TestUpToDateDecision(t *testing.T) {
	now := time.Unix(10_000, 0)
	is := func(reason, message string) metav1.Condition {
		return engine.Condition(contract.ConditionUpToDate, metav1.ConditionFalse, reason, message)
	}
	yes := engine.Condition(contract.ConditionUpToDate, metav1.ConditionTrue, contract.ReasonUpToDate, "")
	after := func(due, created time.Duration) upToDateFacts {
		return factsOf(func(_, _ *contract.MachineSpec, f *upToDateFacts) {
			f.Deployment.RolloutAfter, f.Set.Created = now.Add(due), now.Add(created)
		})
	}
	madeFor := func(at time.Duration) upToDateFacts { // by a clock that is ahead of the API server's
		f := after(-time.Minute, -time.Hour)
		f.Set.Annotations = rollout.MadeForAnnotations(now.Add(at))
		return f
	}
	updating := func(message string) upToDateFacts {
		f := factsOf(nil)
		f.Updating = engine.Condition("", metav1.ConditionTrue, "R", message)
		return f
	}
	for name, tc := range map[string]struct {
		facts upToDateFacts
		want  metav1.Condition
		again time.Duration
	}{
		"the same": {facts: factsOf(nil), want: yes},
		"everything is another": {
			facts: factsOf(func(_, d *contract.MachineSpec, _ *upToDateFacts) {
				d.Version, d.Bootstrap.Name, d.Infrastructure.Name, d.WantedFailureDomain = "v1.34.0", "b2", "i2", "b"
			}),
			want: is(contract.ReasonNotUpToDate, "* Version v1.33.0, v1.34.0 required\n* KubeadmConfig is not up-to-date\n"+
				"* AWSMachine is not up-to-date\n* Failure domain a, b required")},
		"what is changed in place does not count": {
			facts: factsOf(func(_, d *contract.MachineSpec, f *upToDateFacts) {
				d.MinReady, d.NodeDrainTimeout, d.ProviderID, d.ClusterName = contract.Some(time.Minute), contract.Some(time.Minute), "x", "c"
				d.ReadinessGates, d.Taints = []contract.ReadinessGate{{}}, []contract.Taint{{}}
				f.Deployment.Template.Labels = map[string]string{"a": "b"}
			}), want: yes},
		"data of the user's own": {
			facts: factsOf(func(s, d *contract.MachineSpec, _ *upToDateFacts) {
				s.Bootstrap, d.Bootstrap, d.DataSecretName = contract.Ref{}, contract.Ref{}, contract.Some("mine")
			}), want: is(contract.ReasonNotUpToDate, "* spec.bootstrap.dataSecretName nil, mine required")},
		"a rollout is appointed": {facts: after(time.Hour, -time.Hour), want: yes, again: time.Hour + time.Second},
		"it is due": {facts: after(-time.Second, -time.Hour),
			want: is(contract.ReasonNotUpToDate, "* MachineDeployment spec.rolloutAfter expired")},
		"the set is younger than that": {facts: after(-time.Hour, -time.Minute), want: yes},
		"the set was made for that":    {facts: madeFor(-time.Minute), want: yes},
		"the set was made for an earlier rollout": {facts: madeFor(-2 * time.Minute),
			want: is(contract.ReasonNotUpToDate, "* MachineDeployment spec.rolloutAfter expired")},
		"an update in place":          {facts: updating("half way"), want: is(contract.ReasonUpdating, "* half way")},
		"an update without a message": {facts: updating(""), want: is(contract.ReasonUpdating, "* In-place update in progress")},
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
