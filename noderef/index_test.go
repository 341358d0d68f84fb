package noderef

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func TestTheZeroIndexIsUsable(t *testing.T) {
	var x Index
	require.Nil(t, x.ByName("a"))
	require.Empty(t, x.ByProviderID("test://1"))
	require.Nil(t, x.Remove("a"))
	require.Nil(t, x.Add(nil))
	require.Nil(t, x.Add(newNode("a", "u1", "test://1")))
	require.Len(t, x.ByProviderID("test://1"), 1)
}

func TestAReturnedSliceDoesNotChange(t *testing.T) {
	a, b, c := newNode("a", "1", "test://1"), newNode("b", "2", "test://1"), newNode("c", "3", "test://1")
	x := BuildIndex([]*corev1.Node{a, c})
	before := x.ByProviderID("test://1")

	x.Add(b)
	x.Add(newNode("a", "9", "test://1"))
	x.Remove("c")

	require.Equal(t, []*corev1.Node{a, c}, before)
	require.Same(t, a, before[0])
}

// The index must agree with a plain scan after any sequence of changes.
func TestIndexAgreesWithAScan(t *testing.T) {
	rng := rand.New(rand.NewSource(1))
	ids := []string{"", "aws://", "test://1", "test://2", "test://3"}
	var x Index
	model := map[string]*corev1.Node{}
	for step := range 5000 {
		name := fmt.Sprintf("n%d", rng.Intn(8))
		if rng.Intn(3) == 0 {
			require.Same(t, model[name], x.Remove(name), step)
			delete(model, name)
		} else {
			n := newNode(name, fmt.Sprint(step), ids[rng.Intn(len(ids))])
			require.Same(t, model[name], x.Add(n), step)
			model[name] = n
		}
		require.Equal(t, len(model), x.Len())
		require.Same(t, model[name], x.ByName(name))
		for _, id := range ids {
			require.Equal(t, scan(model, id), x.ByProviderID(id), "step %d, ID %q", step, id)
		}
	}
}

func scan(nodes map[string]*corev1.Node, id string) []*corev1.Node {
	var found []*corev1.Node
	for _, n := range nodes {
		if ValidProviderID(id) && n.Spec.ProviderID == id {
			found = append(found, n)
		}
	}
	slices.SortFunc(found, func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	return found
}

func TestTheNamesOfAnIndexAreSorted(t *testing.T) {
	x := NewIndex(Rules{})
	for _, name := range []string{"d", "a", "e", "c", "b", "g", "f"} {
		x.Add(newNode(name, "u-"+name, ""))
	}
	require.Equal(t, []string{"a", "b", "c", "d", "e", "f", "g"}, x.Names())
}
