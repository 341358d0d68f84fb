package machine

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/noderef"
)

// instanceClaim is a Machine that names the provider ID of an instance.
type instanceClaim struct {
	Machine types.NamespacedName
	// Recorded: the Machine has recorded a Node. Elsewhere: it is of another cluster. Made: the instance was made for it, by the Driver.
	Recorded, Deleting, Elsewhere, Made bool
}

// instanceClaims are the inputs of decideInstanceClaim.
type instanceClaims struct {
	// Recorded: this Machine has recorded a Node. Contested: the Node of the provider ID is not its own, or that is not certain.
	// Made: the Driver says that the instance was made for this Machine.
	Recorded, Contested, Made bool
	Others                    []instanceClaim
}

// isContested reports whether a lookup found no Node of the provider ID that is the Machine's own. One that is gone may have been another
// one's, so only one that is there says whose the instance is.
func isContested(o noderef.Outcome) bool { return o != noderef.Matched && o != noderef.Readopted }

// decideInstanceClaim returns the other Machines that an instance stays for while this Machine is being deleted, sorted. The rule is that
// of Nodes (package noderef): the Machine that alone has recorded the Node keeps the instance. Otherwise none deletes it while a Machine
// that is not being deleted names it, and a Machine that has recorded a Node goes before one that has not: it drains the Node first. The
// record may have been removed from the Machine that the instance was made for, and a copy may have it: the instance stays for that one. A
// Machine of another cluster has another Node, or a copy of everything: only the one that the instance was made for does not stay for it.
func decideInstanceClaim(f instanceClaims) []string {
	theirs := slices.ContainsFunc(f.Others, func(c instanceClaim) bool { return c.Recorded && !c.Elsewhere })
	alone := f.Recorded && !f.Contested && !theirs
	var holders []string
	for _, other := range f.Others {
		drains := other.Recorded && !f.Recorded && !other.Elsewhere
		if keeps := alone && !other.Elsewhere && !other.Made || f.Made && other.Elsewhere; !keeps && (!other.Deleting || drains) {
			holders = append(holders, other.Machine.String())
		}
	}
	slices.Sort(holders)
	return holders
}

// instanceHolders returns the other Machines for which the instance stays. Without the index they do not detect each other. One that is
// going stays for none: its Node goes with it.
func (s *Scope) instanceHolders(ctx context.Context) ([]string, error) {
	key := s.env.options.Matching.Key(s.State.ProviderID)
	if key == "" || !s.env.indexed || s.instanceGoing || s.InstanceGone || s.memory.instanceGone {
		return nil, nil
	}
	facts := instanceClaims{Recorded: s.State.Node.UID != "", Contested: isContested(s.Node.Outcome), Made: s.instanceMade}
	claims := func(obj client.Object) {
		var other contract.MachineState
		at, going := client.ObjectKeyFromObject(obj), obj.GetDeletionTimestamp() != nil
		if at == s.State.Key {
			return
		}
		recorded := !going // one that cannot be read may have recorded the Node, and does not drain it
		if s.env.kind.Adapter.Read(obj, &other) == nil {
			recorded = other.Node.UID != ""
		}
		made := s.instanceToken != "" && s.instanceToken == string(obj.GetUID())
		facts.Others = append(facts.Others, instanceClaim{at, recorded, going, s.env.clusterOf(&other) != s.cluster, made})
	}
	err := s.env.frame.Each(ctx, "", providerIDKey(key), claims)
	if s.instanceToken != "" { // the Machine that it was made for may have lost the provider ID
		err = errors.Join(err, s.env.frame.Each(ctx, "", tokenKey(s.instanceToken), claims))
	}
	return decideInstanceClaim(facts), err
}
