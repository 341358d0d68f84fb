package clusterapi_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/machinist-dev/machinist/contract"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/randfill"

	"github.com/machinist-dev/machinist/contract/clusterapi"
)

func replicatedUpdate(r chooser) contract.ReplicatedUpdate {
	u := contract.ReplicatedUpdate{
		Replicas: change(r, int32(3), 0), SelectorText: change(r, "x=y", ""), ObservedReplicas: change(r, int32(1), 0),
		ReadyReplicas: change(r, int32(2), 0), AvailableReplicas: change(r, int32(3), 0), UpToDateReplicas: change(r, int32(4), 0),
		NodeReadyReplicas: change(r, int32(5), 0), NodeAvailableReplicas: change(r, int32(6), 0), ObservedGeneration: change(r, int64(7), 0),
	}
	u.Conditions, u.RemoveConditions = conditionUpdate(r)
	return u
}

func machineSetUpdate(r chooser) contract.MachineSetUpdate {
	return contract.MachineSetUpdate{MetadataUpdate: metadataUpdate(r), ReplicatedUpdate: replicatedUpdate(r),
		FullyLabeledReplicas: change(r, int32(8), 0)}
}

func machineDeploymentUpdate(r chooser) contract.MachineDeploymentUpdate {
	return contract.MachineDeploymentUpdate{MetadataUpdate: metadataUpdate(r), ReplicatedUpdate: replicatedUpdate(r),
		RolloutPaused: change(r, true, false), RolloutAfter: times(r), RollbackTo: change(r, int64(4), 0), Phase: change(r, "Failed", ""),
		UnavailableReplicas: change(r, int32(8), 0), UpdatedReplicas: change(r, int32(9), 0)}
}

func machinePoolUpdate(r chooser) contract.MachinePoolUpdate {
	return contract.MachinePoolUpdate{MetadataUpdate: metadataUpdate(r), ReplicatedUpdate: replicatedUpdate(r),
		ProviderIDs: change(r, []string{"p://2", "p://3"}, nil), DataSecretName: change(r, "s", ""), Phase: change(r, "Running", ""),
		Nodes:          change(r, []contract.NodeRef{{Name: "n3"}, {Name: "n1", UID: "new-uid"}}, nil),
		BootstrapReady: change(r, true, false), InfrastructureReady: change(r, false, true), UnavailableReplicas: change(r, int32(8), 0),
		FailureReason: change(r, "FR2", ""), FailureMessage: change(r, "FM2", "")}
}

func healthCheckUpdate(r chooser) contract.HealthCheckUpdate {
	u := contract.HealthCheckUpdate{MetadataUpdate: metadataUpdate(r), ExpectedMachines: change(r, int32(1), 0),
		CurrentHealthy: change(r, int32(2), 0), RemediationsAllowed: change(r, int32(3), 0), Targets: change(r, []string{"c"}, nil),
		ObservedGeneration: change(r, int64(7), 0)}
	u.Conditions, u.RemoveConditions = conditionUpdate(r)
	return u
}

// filler makes objects of Cluster API's types out of a seed. Some are odd: without a type, a timeout or a status where one must be.
func filler(seed uint64) *randfill.Filler {
	text := func(c randfill.Continue) string { return []string{"", "a", "b", "x/y"}[c.Intn(4)] }
	oneOf := func(c randfill.Continue, common string) string {
		if c.Intn(20) == 0 {
			return text(c)
		}
		return common
	}
	return randfill.NewWithSeed(int64(seed)).NilChance(0.3).NumElements(0, 3).MaxDepth(12).Funcs(
		func(s *string, c randfill.Continue) { *s = text(c) },
		func(m *metav1.TypeMeta, _ randfill.Continue) { *m = metav1.TypeMeta{} },
		func(at *metav1.Time, c randfill.Continue) {
			*at = metav1.NewTime(time.Unix(int64(c.Intn(2))*int64(1e9+c.Intn(1e6)), 0).UTC())
			if at.Unix() == 0 {
				*at = metav1.Time{}
			}
		},
		func(m *metav1.ObjectMeta, c randfill.Continue) {
			*m = metav1.ObjectMeta{Namespace: "n", Name: "m", UID: "u", Generation: int64(c.Intn(3)), Annotations: map[string]string{}}
			c.Fill(&m.Labels)
			c.Fill(&m.Finalizers)
			c.Fill(&m.CreationTimestamp)
			for key, value := range map[string]string{contract.NodeUIDAnnotation: "n", contract.DrainedAnnotation: "d",
				contract.RollbackToAnnotation: "0", contract.RolloutTypeAnnotation: contract.RolloutInPlace} {
				if c.Intn(3) == 0 {
					m.Annotations[key] = oneOf(c, value)
				}
			}
		},
		func(s *metav1.LabelSelector, c randfill.Continue) {
			if *s = (metav1.LabelSelector{}); c.Bool() {
				s.MatchLabels = map[string]string{"a": text(c)}
				s.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "k", Operator: "In", Values: []string{text(c)}}}[:c.Intn(2)]
			}
		},
		func(list *[]metav1.Condition, c randfill.Continue) {
			*list = nil
			for _, kind := range []string{"Available", "Ready", "Other", "Paused"}[:c.Intn(5)] {
				condition := metav1.Condition{Type: oneOf(c, kind), Status: metav1.ConditionStatus(oneOf(c, "False")), Reason: text(c)}
				c.Fill(&condition.LastTransitionTime)
				*list = append(*list, condition)
			}
		},
		func(n *intstr.IntOrString, c randfill.Continue) {
			*n = []intstr.IntOrString{intstr.FromInt32(2), intstr.FromString("5%")}[c.Intn(2)]
		},
		func(g *clusterv1.MachineReadinessGate, c randfill.Continue) {
			*g = clusterv1.MachineReadinessGate{ConditionType: oneOf(c, "G"), Polarity: clusterv1.ConditionPolarity(oneOf(c, "Negative"))}
		},
		func(s *clusterv1.MachineTaint, c randfill.Continue) {
			*s = clusterv1.MachineTaint{Key: oneOf(c, "k"), Value: text(c), Effect: "NoSchedule", Propagation: "Always"}
		},
		func(d *clusterv1.MachineDeletionStatus, c randfill.Continue) { c.FillNoCustom(d) },
	)
}

func filled[T any](seed uint64) *T {
	obj := new(T)
	filler(seed).Fill(obj)
	return obj
}

func FuzzTheKindsAgree(f *testing.F) {
	for seed := range uint64(300) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // what is drawn is to be drawn again
		machines().agree(t, filled[clusterv1.Machine](seed), machineUpdate(r))
		machineSets().agree(t, filled[clusterv1.MachineSet](seed), machineSetUpdate(r))
		machineDeployments().agree(t, filled[clusterv1.MachineDeployment](seed), machineDeploymentUpdate(r))
		machinePools().agree(t, filled[clusterv1.MachinePool](seed), machinePoolUpdate(r))
		healthChecks().agree(t, filled[clusterv1.MachineHealthCheck](seed), healthCheckUpdate(r))
	})
}

func FuzzTheMakersAgree(f *testing.F) {
	for seed := range uint64(300) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 2)) //nolint:gosec // what is drawn is to be drawn again
		makersAgree(t, r, filled[clusterv1.MachineDeployment](seed), filled[clusterv1.MachineSet](seed+uint64(r.IntN(2))),
			filled[clusterv1.Machine](seed))
	})
}

func makersAgree(t *testing.T, r *rand.Rand, d *clusterv1.MachineDeployment, set *clusterv1.MachineSet, machine *clusterv1.Machine) {
	t.Helper()
	ours := [2]contract.MachineMaker{contract.UnstructuredMaker(contract.LayoutsOf(contract.V1Beta2).MachineSet,
		clusterv1.GroupVersion.WithKind("Machine"),
		contract.LayoutsOf(contract.V1Beta2).Machine), clusterapi.Kinds().Maker}
	sets := [2]contract.MachineSetMaker{contract.UnstructuredSetMaker(contract.LayoutsOf(contract.V1Beta2).MachineDeployment,
		clusterv1.GroupVersion.WithKind("MachineSet"), contract.LayoutsOf(contract.V1Beta2).MachineSet), clusterapi.Kinds().SetMaker}
	key := types.NamespacedName{Namespace: "n", Name: "new"}
	seed := contract.MachineSeed{Seed: contract.Seed{Key: key, Labels: map[string]string{"l": "1"}, Finalizers: []string{"f"}},
		Bootstrap: contract.Ref{Group: "g", Kind: "B", Name: "b"}, Infrastructure: contract.Ref{Group: "g", Kind: "I", Name: "i"}}
	if r.IntN(2) == 0 {
		seed.Bootstrap = contract.Ref{}
	}
	setSeed := contract.MachineSetSeed{
		Seed: contract.Seed{Key: key}, Replicas: int32(r.IntN(2)), TemplateLabels: map[string]string{"hash": "1"},
		SelectorLabels: map[string]string{"hash": "1"}}
	given := []string{"minReady", "nodeDrainTimeout", "taints", "readinessGates", "deletionOrder", "labels.a", "labels.zz", "annotations.b"}
	given = given[r.IntN(len(given)):]
	before := set.DeepCopy()
	type outcome struct {
		Made, Synced, MadeSet, SyncedSet, Copied map[string]any
		Fields, SetFields, Diff, After           []string
	}
	var results [2]outcome
	for i := range results {
		shape := func(obj contract.Object) contract.Object {
			if i == 0 {
				return plain(t, obj)
			}
			return obj.DeepCopyObject().(contract.Object)
		}
		known := func(obj contract.Object, into contract.Object) map[string]any {
			require.NoError(t, reencode(plain(t, obj).Object, into))
			return withoutZeros(plain(t, into).Object)
		}
		var err error
		out, deployed, owner, one := &results[i], shape(d), shape(set), shape(machine)
		made, err := ours[i].NewMachine(owner, seed)
		require.NoError(t, err)
		out.Made = known(made, &clusterv1.Machine{})
		out.Fields, err = ours[i].SyncMachine(owner, one, given)
		require.NoError(t, err)
		out.Synced = known(one, &clusterv1.Machine{})
		madeSet, err := sets[i].NewSet(deployed, setSeed)
		require.NoError(t, err)
		out.MadeSet = known(madeSet, &clusterv1.MachineSet{})
		out.Diff, err = sets[i].TemplateDiff(deployed, owner)
		require.NoError(t, err)
		out.SetFields, err = sets[i].SyncSet(deployed, owner, given)
		require.NoError(t, err)
		out.SyncedSet = known(owner, &clusterv1.MachineSet{})
		require.NoError(t, sets[i].CopyTemplate(owner, deployed))
		out.Copied = known(deployed, &clusterv1.MachineDeployment{})
		out.After, err = sets[i].TemplateDiff(deployed, owner)
		require.NoError(t, err)
		require.Empty(t, out.After)
	}
	equal(t, results[0], results[1])
	require.Equal(t, before, set, "makers do not change the owner")
}

func TestWhatIsNotThereIsNamed(t *testing.T) {
	for text, want := range map[string]string{
		`{"spec":{"checks":{"unhealthyNodeConditions":[{"type":"Ready","status":"True"}]}}}`:                        "timeoutSeconds: want 32-bit integer of seconds, found nothing",
		`{"spec":{"checks":{"unhealthyMachineConditions":[{"type":"Ready","status":"True","timeoutSeconds":-1}]}}}`: "timeoutSeconds: want 32-bit integer of seconds, found -1s",
		`{"spec":{"checks":{"unhealthyMachineConditions":[{"type":"Ready","timeoutSeconds":1}]}}}`:                  "status: want string, found nothing",
	} {
		obj := decoded(t, clusterapi.Kinds().Check, text)
		var state contract.HealthCheckState
		err := clusterapi.Kinds().Check.Adapter.Read(obj, &state)
		require.ErrorIs(t, err, contract.ErrWrongType)
		require.ErrorContains(t, err, want, fmt.Sprint(text))
		healthChecks().agree(t, obj, contract.HealthCheckUpdate{})
	}
}
