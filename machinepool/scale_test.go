package machinepool_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machinepool"
)

// selecting gives the kind of pools a place for the selector, which Cluster API's has not.
func selecting(k *machinepool.Kinds) {
	layout := *contract.LayoutsOf(contract.V1Beta2).MachinePool
	layout.SelectorText = contract.At[string]("status", "selector")
	k.Pool = contract.Unstructured(k.Pool.GVK, &layout)
}

func selectorOf(t *testing.T, pool *unstructured.Unstructured) string {
	t.Helper()
	text, _, err := unstructured.NestedString(pool.Object, "status", "selector")
	require.NoError(t, err)
	return text
}

func TestSelector(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{Machines: true}, kinds: selecting})
	pool := w.poolWith(2)
	var text string
	w.eventually("a selector", func() string {
		text = selectorOf(t, w.get(pool))
		return map[bool]string{true: "none yet"}[text == ""]
	})
	selector, err := labels.Parse(text)
	require.NoError(t, err)
	w.eventually("two Machines that it selects", func() string {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(fake.MachineGVK())
		require.NoError(t, w.client.List(t.Context(), list))
		n := 0
		for i := range list.Items {
			if selector.Matches(labels.Set(list.Items[i].GetLabels())) {
				n++
			}
		}
		return map[bool]string{true: "not yet"}[n != 2 || len(list.Items) != 2]
	})
}

func TestALongNameIsSelectedByTheLabelThatItsMachinesHave(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{kinds: selecting})
	pool := fake.MachinePool(strings.Repeat("p", 80), 1)
	w.create(pool)
	w.eventually("a selector", func() string {
		text := selectorOf(t, w.get(pool))
		if text == "" {
			return "none yet"
		}
		_, err := labels.Parse(text)
		require.NoError(t, err)
		require.Contains(t, text, contract.PoolNameLabel+"="+contract.LabelValue(pool.GetName()))
		return ""
	})
}

func TestAPoolThatScalesToZeroArrives(t *testing.T) {
	t.Parallel()
	// The provider's Go type drops a list that is empty: it says status.replicas: 0, and nothing of IDs.
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{}})
	pool := w.poolWith(2)
	w.reports(pool, "Running", 2, 2)
	w.change(pool, set(int64(0), "spec", "replicas"))
	w.reports(pool, "Running", 0, 0)
	w.eventually("the Nodes go", func() string {
		if n := len(w.nodes()); n != 0 {
			return "there are still some"
		}
		return ""
	})
	w.change(pool, set(int64(1), "spec", "replicas"))
	w.reports(pool, "Running", 1, 1)
}

// A provider takes an instance that has ended off its list in one write, and lowers status.replicas in a second one. Until then the pool
// counts the instance.
func TestTheNodeOfAnInstanceThatIsNoLongerListedIsNotUncordoned(t *testing.T) {
	t.Parallel()
	for name, list := range map[string][]any{"no list": nil, "an empty list": {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, worldOptions{})
			_, infra := w.poolOf("p://1")
			w.writeNode("n-0", markLeaving)
			w.nodeIs("n-0", true, true)
			w.isQuiet()
			w.change(infra, func(u *unstructured.Unstructured) {
				unstructured.RemoveNestedField(u.Object, "spec", "providerIDList")
				if list != nil {
					set(list, "spec", "providerIDList")(u)
				}
			})
			w.settles()
			w.writeNode("n-0", markStaying)
			w.settles()
			require.Zero(t, w.writes()["patch Node"])
			w.nodeIs("n-0", true, true)
			w.listed(infra, "p://1")
			w.nodeIs("n-0", false, false) // it stays after all
		})
	}
}

func TestANodeOfAPoolWithoutAProviderServesAgainWhenItStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	w.create(fake.Node("n-0", "p://1"), fake.MachinePool("pool", 1, set([]any{"p://1"}, "spec", "providerIDList"),
		set(map[string]any{"dataSecretName": "mine"}, "spec", "template", "spec", "bootstrap"),
		func(u *unstructured.Unstructured) {
			unstructured.RemoveNestedField(u.Object, "spec", "template", "spec", "infrastructureRef")
		}))
	w.writeNode("n-0", markLeaving)
	w.nodeIs("n-0", true, true)
	w.writeNode("n-0", markStaying)
	w.nodeIs("n-0", false, false)
}
