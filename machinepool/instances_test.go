package machinepool

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/noderef"
)

var testPool = types.NamespacedName{Namespace: "default", Name: "pool"}

func testNode(name, id string, change ...func(*corev1.Node)) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name + "-uid")}, Spec: corev1.NodeSpec{ProviderID: id}}
	for _, do := range change {
		do(node)
	}
	return node
}

func readyAt(since time.Time) func(*corev1.Node) { return readiness(corev1.ConditionTrue, since) }

func readiness(status corev1.ConditionStatus, since time.Time) func(*corev1.Node) {
	return func(node *corev1.Node) {
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.NewTime(since)}}
	}
}

func index(rules noderef.Rules, nodes ...*corev1.Node) *noderef.Index {
	x := noderef.NewIndex(rules)
	for _, node := range nodes {
		x.Add(node)
	}
	return x
}

func names(nodes []*corev1.Node) []string {
	var all []string
	for _, node := range nodes {
		all = append(all, node.Name)
	}
	return all
}

// others are claims that a test makes up.
func others(claims ...noderef.Identity) noderef.Claims {
	return func(*corev1.Node) []noderef.Identity { return claims }
}

func TestTheOrderOfProviderIDsAndRepeatedOnesDoNotMatter(t *testing.T) {
	// Cluster API compares the lists with their order, and sets the ready counter back to 0 for a provider that reorders its own.
	ids := []string{"p://1", "p://2", "p://3", "p://4"}
	nodes := index(noderef.Rules{}, testNode("a", "p://3"), testNode("b", "p://1"), testNode("c", "p://4"))
	want := findInstances(instanceFacts{Pool: testPool, IDs: ids, Nodes: nodes})
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test's order
	for range 50 {
		shuffled := append([]string{ids[random.IntN(4)], "", "p://"}, ids...)
		random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if !slices.Equal(ids, instanceIDs(shuffled, noderef.Rules{})) {
			t.Fatalf("%v names other instances than %v", shuffled, ids)
		}
		got := findInstances(instanceFacts{Pool: testPool, IDs: shuffled, Nodes: nodes})
		if diff := cmp.Diff(want.refs(), got.refs()); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	}
	if diff := cmp.Diff([]string{"p://2"}, want.in(missing).ids()); diff != "" {
		t.Errorf("without a Node (-want +got):\n%s", diff)
	}
}

func TestNodesAreMatchedByThePluggableMatcher(t *testing.T) {
	// kubernetes-sigs/cluster-api#7278: the list leaves the zone out, the Node does not.
	rules := noderef.Rules{Canonical: func(id string) string { return "aws:///" + id[strings.LastIndexByte(id, '/')+1:] }}
	nodes := index(rules, testNode("n", "aws:///us-east-2a/i-0123456789abcdef0"))
	got := findInstances(instanceFacts{Pool: testPool, IDs: []string{"aws:////i-0123456789abcdef0"}, Nodes: nodes, Rules: rules})
	if diff := cmp.Diff([]string{"n"}, names(got.in(here).nodes())); diff != "" {
		t.Error(diff)
	}
}

func TestIDsThatEndAlikeNameDifferentInstances(t *testing.T) {
	// Matching by the last segment broke pools of Azure (kubernetes-sigs/cluster-api-provider-azure#1503).
	nodes := index(noderef.Rules{}, testNode("a", "azure:///scaleSets/one/virtualMachines/0"),
		testNode("b", "azure:///scaleSets/two/virtualMachines/0"))
	got := findInstances(instanceFacts{Pool: testPool, IDs: []string{"azure:///scaleSets/two/virtualMachines/0"}, Nodes: nodes})
	if diff := cmp.Diff([]string{"b"}, names(got.in(here).nodes())); diff != "" {
		t.Error(diff)
	}
}

func TestANodeThatTookTheNameOfARetiredOneIsLeftAlone(t *testing.T) {
	// Cluster API gets the Node by name and deletes it, whosever it is now.
	recorded := []contract.NodeRef{{Name: "n", UID: "the-old-one"}}
	nodes := index(noderef.Rules{}, testNode("n", "p://of-another-pool"))
	got := findInstances(instanceFacts{Pool: testPool, IDs: []string{"p://1"}, Recorded: recorded, Nodes: nodes})
	if len(got.in(retired)) > 0 || len(got.refs()) > 0 {
		t.Errorf("want nothing retired and nothing recorded, got %v and %v", names(got.in(retired).nodes()), got.refs())
	}
}

func TestWhichRecordedNodesAreRetired(t *testing.T) {
	nodes := index(noderef.Rules{}, testNode("left", "p://left"), testNode("stays", "p://stays"), testNode("without-id", ""),
		testNode("never-recorded", "p://other"))
	recorded := []contract.NodeRef{{Name: "left", UID: "left-uid"}, {Name: "stays", UID: "stays-uid"}, {Name: "gone", UID: "gone-uid"},
		{Name: "without-id", UID: "without-id-uid"}}
	facts := instanceFacts{Pool: testPool, IDs: []string{"p://stays"}, Recorded: recorded, Nodes: nodes}
	for name, tc := range map[string]struct {
		change func(*instanceFacts)
		want   []string
	}{
		"its instance left the list":    {func(*instanceFacts) {}, []string{"left"}},
		"it was recorded by name alone": {func(f *instanceFacts) { f.Recorded = []contract.NodeRef{{Name: "left"}} }, nil},
		"another pool names its instance now": {func(f *instanceFacts) {
			f.Claims = others(noderef.Identity{Machine: types.NamespacedName{Name: "other"}, ProviderID: "p://left"})
		}, nil},
		"another pool had recorded it and names it no more": {
			func(f *instanceFacts) {
				f.Claims = others(noderef.Identity{Machine: types.NamespacedName{Name: "other"}})
			}, []string{"left"}},
		"its own claim does not count, though it names it too": {
			func(f *instanceFacts) { f.Claims = others(noderef.Identity{Machine: testPool, ProviderID: "p://left"}) }, []string{"left"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := facts
			tc.change(&f)
			got := findInstances(f)
			if diff := cmp.Diff(tc.want, names(got.in(retired).nodes())); diff != "" {
				t.Errorf("retired (-want +got):\n%s", diff)
			}
		})
	}
}

func TestANodeIsRecordedUntilItIsGone(t *testing.T) {
	nodes := index(noderef.Rules{}, testNode("left", "p://left"), testNode("stays", "p://stays"))
	recorded := []contract.NodeRef{{Name: "left", UID: "left-uid"}, {Name: "stays", UID: "stays-uid"}}
	got := findInstances(instanceFacts{Pool: testPool, IDs: []string{"p://stays"}, Recorded: recorded, Nodes: nodes})
	if diff := cmp.Diff(recorded, got.refs()); diff != "" {
		t.Errorf("a process that starts anew must still know whom to retire (-want +got):\n%s", diff)
	}
	got.retireNone()
	if diff := cmp.Diff(recorded, got.refs()); diff != "" || len(got.in(retired)) > 0 {
		t.Errorf("the list lacks instances that there are: %v retired (-want +got):\n%s", names(got.in(retired).nodes()), diff)
	}
}

func TestANodeThatAnotherPoolNamesIsGivenUpByACompleteListAlone(t *testing.T) {
	recorded := []contract.NodeRef{{Name: "moved", UID: "moved-uid"}}
	rival := others(noderef.Identity{Machine: types.NamespacedName{Namespace: "default", Name: "other"}, ProviderID: "p://moved"})
	nodes := index(noderef.Rules{}, testNode("moved", "p://moved"))
	got := findInstances(instanceFacts{Pool: testPool, Recorded: recorded, Nodes: nodes, Claims: rival})
	if refs := got.refs(); len(refs) > 0 {
		t.Errorf("it is still recorded: %v", refs)
	}
	got.retireNone()
	if diff := cmp.Diff(recorded, got.refs()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestInstancesThatSeveralNodesOrPoolsNameHaveNone(t *testing.T) {
	nodes := index(noderef.Rules{}, testNode("a", "p://twice"), testNode("b", "p://twice"), testNode("c", "p://claimed"))
	rival := others(noderef.Identity{Machine: types.NamespacedName{Namespace: "default", Name: "other"}, ProviderID: "p://claimed"})
	facts := instanceFacts{Pool: testPool, IDs: []string{"p://twice", "p://claimed"}, Nodes: nodes, Claims: rival}
	got := findInstances(facts)
	if diff := cmp.Diff([]any{[]string{"p://twice"}, []string{"p://claimed"}, 0},
		[]any{got.in(ambiguous).ids(), got.in(claimed).ids(), len(got.in(here))}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	facts.Recorded = []contract.NodeRef{{Name: "c", UID: "c-uid"}}
	if got := findInstances(facts); len(got.in(here)) != 1 {
		t.Errorf("the pool that alone has recorded a Node keeps it, got %+v", got)
	}
}

func FuzzFindInstancesNeverRetiresWhatWasNotRecorded(f *testing.F) {
	f.Add(uint64(1), true)
	f.Fuzz(func(t *testing.T, seed uint64, complete bool) {
		random := rand.New(rand.NewPCG(seed, seed)) //nolint:gosec // a test's choice
		letter := func() string { return string(rune('a' + random.IntN(8))) }
		facts := instanceFacts{Pool: testPool}
		var nodes []*corev1.Node
		for range random.IntN(8) {
			name := letter()
			nodes = append(nodes, testNode(name, "p://"+letter(), func(n *corev1.Node) { n.UID = types.UID(name + letter()) }))
			facts.IDs = append(facts.IDs, "p://"+letter())
			recorded := letter()
			facts.Recorded = append(facts.Recorded, contract.NodeRef{Name: recorded, UID: types.UID(recorded + letter())})
		}
		facts.Nodes = index(noderef.Rules{}, nodes...)
		got := findInstances(facts)
		if !complete {
			got.retireNone()
		}
		listed := map[string]bool{}
		for _, id := range facts.IDs {
			listed[id] = true
		}
		recorded := map[contract.NodeRef]bool{}
		for _, ref := range facts.Recorded {
			recorded[ref] = true
		}
		for _, node := range got.in(retired).nodes() {
			if !complete || listed[node.Spec.ProviderID] || !recorded[contract.NodeRef{Name: node.Name, UID: node.UID}] {
				t.Errorf("Node %s (%s, %s) must not be retired", node.Name, node.UID, node.Spec.ProviderID)
			}
		}
		for _, node := range got.in(here).nodes() {
			if !listed[node.Spec.ProviderID] {
				t.Errorf("Node %s is not the pool's", node.Name)
			}
		}
	})
}

func TestANodeByARecordedNameIsThePoolsWhenItIsTheRecordedOneOrAnInstance(t *testing.T) {
	recorded := contract.NodeRef{Name: "n", UID: "n-uid"}
	another := func(n *corev1.Node) { n.UID = "another" }
	unnamed := func(n *corev1.Node) { n.UID = "" }
	for name, tc := range map[string]struct {
		node *corev1.Node
		ref  contract.NodeRef
		want bool
	}{
		"the recorded one":                   {testNode("n", "p://left"), recorded, true},
		"an instance that registered again":  {testNode("n", "p://1", another), recorded, true},
		"another instance took its name":     {testNode("n", "p://2", another), recorded, false},
		"nothing says whose it is":           {testNode("n", "", another), recorded, false},
		"neither the record nor it has UIDs": {testNode("n", "p://2", unnamed), contract.NodeRef{Name: "n"}, false},
	} {
		if got := isStill(tc.node, tc.ref, []string{"", "p://1"}, noderef.Rules{}); got != tc.want {
			t.Errorf("%s: want %v, got %v", name, tc.want, got)
		}
	}
}
