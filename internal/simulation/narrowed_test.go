package simulation

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/fake"
)

func TestANarrowedCacheShowsAnObjectThatGetsTheLabelAsRemovedAndOneThatLosesItAsAdded(t *testing.T) {
	t.Parallel()
	w := &World{choices: Replayed([]uint32{0, 2}), narrow: &narrowing{kind: "Machine", of: [2]bool{false, true}}}
	plain, elsewhere := fake.Machine("m"), fake.Machine("m", fake.WithLabels(map[string]string{elsewhereLabel: ""}))
	whole, narrowed := &process{number: 0}, &process{number: 1}
	bookmark := []change{{object: elsewhere, bookmark: true}}
	for name, test := range map[string]struct {
		of     *process
		e      change
		before *unstructured.Unstructured
		want   []change
	}{
		"a whole cache":           {whole, change{object: elsewhere}, plain, []change{{object: elsewhere}}},
		"it is without the label": {narrowed, change{object: plain}, plain, []change{{object: plain}}},
		"it gets the label":       {narrowed, change{object: elsewhere}, plain, []change{{object: elsewhere, removed: true}}},
		"it loses the label":      {narrowed, change{object: plain}, elsewhere, []change{{object: plain}}},
		"it is created with it":   {narrowed, change{object: elsewhere}, nil, bookmark},
		"it changes and keeps it": {narrowed, change{object: elsewhere}, elsewhere, bookmark},
		"another kind":            {narrowed, change{object: nodeElsewhere()}, nil, []change{{object: nodeElsewhere()}}},
	} {
		w.choices = Replayed(nil)
		require.Equal(t, test.want, w.sent(test.of, test.e, test.before), name)
	}
	w.choices = Replayed([]uint32{1})
	require.Empty(t, w.sent(narrowed, change{object: elsewhere}, elsewhere), "not each event causes a bookmark")
}

func nodeElsewhere() *unstructured.Unstructured {
	node := &unstructured.Unstructured{Object: map[string]any{"kind": "Node"}}
	node.SetLabels(map[string]string{elsewhereLabel: ""})
	return node
}

func TestBookmark(t *testing.T) {
	t.Parallel()
	v := newView(servedKinds(libraryKinds()))
	k := v.kinds[fake.MachineGVK().GroupKind()]
	m := fake.Machine("m")
	m.SetResourceVersion("7")
	k.pending = []change{{object: m, bookmark: true}}
	k.deliver()
	require.Equal(t, "7", k.version)
	require.Error(t, v.Get(t.Context(), client.ObjectKeyFromObject(m), fake.Machine("m")))
}
