package machine

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/noderef"
)

func TestAnInstanceThatSeveralMachinesNameIsDeletedWithTheOneThatAloneHasItsNode(t *testing.T) {
	t.Parallel()
	other := func(name string, recorded, deleting bool) instanceClaim {
		return instanceClaim{Machine: types.NamespacedName{Namespace: "ns", Name: name}, Recorded: recorded, Deleting: deleting}
	}
	made := func(name string, deleting bool) instanceClaim {
		c := other(name, false, deleting)
		c.Made = true
		return c
	}
	far := func(recorded, deleting bool) instanceClaim {
		return instanceClaim{types.NamespacedName{Namespace: "far", Name: "a"}, recorded, deleting, true, false, true}
	}
	for name, tc := range map[string]struct {
		facts instanceClaims
		want  []string
	}{
		"there is no other": {},
		"this one alone has recorded the Node": {
			facts: instanceClaims{Recorded: true, Others: []instanceClaim{other("b", false, false), other("c", false, true)}}},
		"this one alone has recorded the Node, and the instance was made for another one, which has lost the record": {
			facts: instanceClaims{Recorded: true, Others: []instanceClaim{made("b", false)}}, want: []string{"ns/b"}},
		"the instance was made for another one, which is being deleted": {
			facts: instanceClaims{Recorded: true, Others: []instanceClaim{made("b", true)}}},
		"this one has recorded a Node of another instance": {
			facts: instanceClaims{Recorded: true, Contested: true, Others: []instanceClaim{other("b", false, false)}}, want: []string{"ns/b"}},
		"another one has recorded the Node": {
			facts: instanceClaims{Others: []instanceClaim{other("b", true, false)}}, want: []string{"ns/b"}},
		"another one has recorded the Node, and drains it": {
			facts: instanceClaims{Others: []instanceClaim{other("b", true, true), other("c", false, true)}}, want: []string{"ns/b"}},
		"no one has recorded a Node": {
			facts: instanceClaims{Others: []instanceClaim{other("c", false, false), other("b", false, false)}}, want: []string{"ns/b", "ns/c"}},
		"no one has recorded a Node, and all are being deleted": {
			facts: instanceClaims{Others: []instanceClaim{other("b", false, true)}}},
		"both have recorded a Node, as after a copy with all annotations": {
			facts: instanceClaims{Recorded: true, Contested: true, Others: []instanceClaim{other("b", true, false)}}, want: []string{"ns/b"}},
		"both have recorded a Node, and are being deleted": {
			facts: instanceClaims{Recorded: true, Contested: true, Others: []instanceClaim{other("b", true, true)}}},
		"it was restored for another cluster": {
			facts: instanceClaims{Recorded: true, Others: []instanceClaim{far(true, false)}}, want: []string{"far/a"}},
		"it was restored for another cluster, and both are being deleted": {
			facts: instanceClaims{Others: []instanceClaim{far(true, true)}}},
		"a copy was restored for another cluster": {
			facts: instanceClaims{Made: true, Others: []instanceClaim{far(true, false)}}},
		"a copy was restored, and there is one in the cluster": {
			facts: instanceClaims{Made: true, Others: []instanceClaim{far(true, false), other("b", false, false)}}, want: []string{"ns/b"}},
		"the Node of the other cluster's copy does not contest this one's": {
			facts: instanceClaims{Recorded: true, Made: true, Others: []instanceClaim{far(true, false), other("b", false, false)}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, decideInstanceClaim(tc.facts))
		})
	}
}

func TestMachinesThatAreBeingDeletedDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	for bits := range 1 << 7 {
		recorded, contested := [2]bool{bits&1 != 0, bits&2 != 0}, [2]bool{bits&4 != 0, bits&8 != 0}
		made, elsewhere := [2]bool{bits&16 != 0, bits&32 != 0}, bits&64 != 0
		waiting := 0
		for i := range 2 {
			facts := instanceClaims{Recorded: recorded[i], Contested: contested[i], Made: made[i], Others: []instanceClaim{{
				Recorded: recorded[1-i], Deleting: true, Elsewhere: elsewhere,
			}}}
			waiting += len(decideInstanceClaim(facts))
		}
		require.Less(t, waiting, 2, "recorded %v, contested %v, made %v, elsewhere %v", recorded, contested, made, elsewhere)
	}
}

// Only the Machine's own Node that is there says that the instance is its own.
func TestAnInstanceIsContestedUnlessItsNodeIsTheMachines(t *testing.T) {
	t.Parallel()
	own, outcomes := []string{}, 0
	for o := noderef.Unknown; !strings.HasPrefix(o.String(), "Outcome("); o++ {
		outcomes++
		copied := instanceClaims{Recorded: true, Contested: isContested(o), Others: []instanceClaim{{}}}
		alone := instanceClaims{Recorded: true, Contested: isContested(o)}
		require.Empty(t, decideInstanceClaim(alone), "%s", o)
		if len(decideInstanceClaim(copied)) == 0 {
			own = append(own, o.String())
		}
	}
	require.Equal(t, 8, outcomes)
	require.Equal(t, []string{"Matched", "Readopted"}, own)
}

func TestNodeClaim(t *testing.T) {
	t.Parallel()
	other := func(name string, deleting, made bool) instanceClaim {
		return instanceClaim{Machine: types.NamespacedName{Namespace: "ns", Name: name}, Deleting: deleting, Made: made}
	}
	for name, tc := range map[string]struct {
		others          []instanceClaim
		known           bool
		heldBy, unclear string
	}{
		"there is no other": {},
		"the driver has not answered": {
			others: []instanceClaim{other("c", false, false), other("b", false, false)}, unclear: "ns/b"},
		"the others are being deleted": {others: []instanceClaim{other("b", true, false)}},
		"it was made for another one": {
			others: []instanceClaim{other("c", false, false), other("b", false, true)}, known: true, heldBy: "ns/b"},
		"it was made for one that is being deleted": {others: []instanceClaim{other("b", true, true)}, known: true},
		"it was made for none of them":              {others: []instanceClaim{other("b", false, false)}, known: true},
	} {
		heldBy, unclear := decideNodeClaim(tc.others, tc.known)
		require.Equal(t, [2]string{tc.heldBy, tc.unclear}, [2]string{heldBy, unclear}, name)
	}
}
