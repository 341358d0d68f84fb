package contract_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
)

// seedMaker is a maker of one function each.
type seedMaker struct {
	contract.MachineMaker
	contract.MachineSetMaker

	machine func(*contract.MachineSeed)
	set     func(*contract.MachineSetSeed)
	cluster string
	err     error
}

func (m seedMaker) NewMachine(_ contract.Object, s contract.MachineSeed) (contract.Object, error) {
	m.machine(&s)
	made := m.named()
	s.ApplyTo(made)
	return made, m.err
}

func (m seedMaker) NewSet(_ contract.Object, s contract.MachineSetSeed) (contract.Object, error) {
	m.set(&s)
	made := m.named()
	s.ApplyTo(made)
	return made, m.err
}

func (m seedMaker) named() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"clusterName": m.cluster}}}
}

func members(forgotten []contract.NotStored) (all []string) {
	for _, f := range forgotten {
		all = append(all, f.Member)
	}
	return all
}

func TestCheckMaker(t *testing.T) {
	gvk := schema.GroupVersion{Group: "example.com", Version: "v1"}.WithKind
	machines := contract.Unstructured(gvk("Machine"), contract.LayoutsOf(contract.V1Beta2).Machine)
	sets := contract.Unstructured(gvk("MachineSet"), contract.LayoutsOf(contract.V1Beta2).MachineSet)
	deployments := contract.Unstructured(gvk("MachineDeployment"), contract.LayoutsOf(contract.V1Beta2).MachineDeployment)
	owner := func() contract.Object {
		return &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"clusterName": "c"}}}
	}
	for _, tc := range []struct {
		name, lacks string
		machine     func(*contract.MachineSeed)
		set         func(*contract.MachineSetSeed)
	}{
		{"keeps all", "", func(*contract.MachineSeed) {}, func(*contract.MachineSetSeed) {}},
		{"forgets all labels", "metadata.labels",
			func(s *contract.MachineSeed) { s.Labels = nil }, func(s *contract.MachineSetSeed) { s.Labels = nil }},
		{"forgets one label", "metadata.labels", func(s *contract.MachineSeed) { delete(s.Labels, "example.com/b") },
			func(s *contract.MachineSetSeed) { delete(s.Labels, "example.com/b") }},
		{"forgets annotations", "metadata.annotations",
			func(s *contract.MachineSeed) { s.Annotations = nil }, func(s *contract.MachineSetSeed) { s.Annotations = nil }},
		{"forgets the owner", "metadata.ownerReferences",
			func(s *contract.MachineSeed) { s.Owners = nil }, func(s *contract.MachineSetSeed) { s.Owners = nil }},
		{"forgets the namespace", "metadata.namespace",
			func(s *contract.MachineSeed) { s.Key.Namespace = "" }, func(s *contract.MachineSetSeed) { s.Key.Namespace = "" }},
		{"forgets the finalizer", "metadata.finalizers",
			func(s *contract.MachineSeed) { s.Finalizers = nil }, func(s *contract.MachineSetSeed) { s.Finalizers = nil }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var want []string
			if tc.lacks != "" {
				want = []string{tc.lacks}
			}
			maker := seedMaker{machine: tc.machine, set: tc.set, cluster: "c"}
			lacks, err := contract.CheckMaker(sets, machines, maker, owner())
			require.NoError(t, err)
			require.Equal(t, want, members(lacks))
			lacks, err = contract.CheckSetMaker(deployments, sets, maker, owner())
			require.NoError(t, err)
			require.Equal(t, want, members(lacks))
			if len(lacks) > 0 {
				require.Contains(t, lacks[0].String(), tc.lacks+" is not stored, so ")
				require.Contains(t, lacks[0].String(), "have the maker set it")
			}
		})
	}
	same := seedMaker{machine: func(*contract.MachineSeed) {}, set: func(*contract.MachineSetSeed) {}}
	t.Run("forgets the Cluster", func(t *testing.T) {
		lacks, err := contract.CheckMaker(sets, machines, same, owner())
		require.NoError(t, err)
		require.Equal(t, []string{"the name of its Cluster"}, members(lacks))
		lacks, err = contract.CheckMaker(sets, machines, same, nil)
		require.NoError(t, err)
		require.Empty(t, lacks, "an empty set has none")
	})
	t.Run("a maker that fails or panics", func(t *testing.T) {
		fails := same
		fails.err = errors.New("no template")
		_, err := contract.CheckMaker(sets, machines, fails, nil)
		require.ErrorIs(t, err, fails.err)
		_, err = contract.CheckSetMaker(deployments, sets, seedMaker{}, nil)
		require.ErrorContains(t, err, "make a MachineSet: the maker panics: ")
	})
	t.Run("the makers of layouts", func(t *testing.T) {
		of := contract.LayoutsOf(contract.V1Beta2)
		set := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
			"clusterName": "c", "template": map[string]any{"spec": map[string]any{"clusterName": "c"}}}}}
		lacks, err := contract.CheckMaker(sets, machines,
			contract.UnstructuredMaker(of.MachineSet, gvk("Machine"), of.Machine), set)
		require.NoError(t, err)
		require.Empty(t, lacks)
		lacks, err = contract.CheckSetMaker(deployments, sets,
			contract.UnstructuredSetMaker(of.MachineDeployment, gvk("MachineSet"), of.MachineSet), set)
		require.NoError(t, err)
		require.Empty(t, lacks)
	})
}
