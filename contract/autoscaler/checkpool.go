package autoscaler

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/machinist-dev/machinist/contract"
)

// pool checks spec.providerIDList, which is all that the autoscaler knows of the instances of a MachinePool.
func (c *checker) pool() {
	const rule = "every entry is a running instance to the autoscaler, and a Node's group is found by the text after the last slash"
	list := contract.NewPath("spec", "providerIDList")
	raw, _, err := read[[]any](c.group.Object, "list", list.Segments()...)
	c.errors(c.breaking(), "", err, ruleInstance)
	if err != nil {
		return
	}
	nodes := nodesByKey(c.around.Nodes)
	known := map[string]bool{}
	for i, entry := range raw {
		id, ok := entry.(string)
		place := at(list, i).String()
		switch _, madeUp := MachineOf(id); {
		case !ok:
			c.must(place, contract.TypeName(entry), "string", ruleInstance)
		case NormalizeProviderID(id) == "":
			c.must(place, quoted(id), "the provider ID of an instance", rule)
		case madeUp:
			c.must(place, quoted(id), "the ID of an instance", "the autoscaler makes up IDs that begin so")
		case known[id]:
			c.should(place, quoted(id)+" once more", "every provider ID once", rule)
		case nodes[NormalizeProviderID(id)] != "" && nodes[NormalizeProviderID(id)] != id:
			c.must(place, quoted(id), quoted(nodes[NormalizeProviderID(id)])+", byte by byte as in the Node", ruleExact)
		}
		known[id] = true
	}
	c.readyNodes(list, len(raw))
	c.poolMachines(known)
}

// readyNodes compares the list with the Nodes that are there. A pool that is still starting has an empty list.
func (c *checker) readyNodes(list contract.Path, listed int) {
	const want = "the provider IDs of all instances"
	const rule = "the Nodes of instances that are not listed belong to no group"
	ready, _, err := readyReplicasPath.Get(c.group.Object)
	switch {
	case err == nil && ready > int64(listed):
		c.must(list.String(), fmt.Sprintf("%d entries for %d ready replicas", listed, ready), want, rule)
	case listed == 0 && !c.atZero:
		c.should(list.String(), nothing, want, rule)
	}
}

// poolMachines checks the Machines that a pool may have for its instances.
func (c *checker) poolMachines(known map[string]bool) {
	for _, machine := range sortedByName(c.around.Machines) {
		if machine.GetNamespace() != c.group.GetNamespace() || ownerName(machine, kindMachinePool) != c.group.GetName() {
			continue
		}
		id, found, err := providerIDPath.Get(machine.Object)
		switch {
		case err != nil:
			c.errors(c.breaking(), of(machine), err, ruleInstance)
		case found && id != "" && !known[id] && machine.GetDeletionTimestamp().IsZero():
			c.should(of(machine)+"spec.providerID", quoted(id), "an entry of spec.providerIDList of its pool",
				"the autoscaler finds the pool of a Node by that list, and the Machine to mark by its provider ID")
		}
	}
}

// nodesByKey maps normalized provider IDs to whole ones, without those that two Nodes share.
func nodesByKey(nodes []*corev1.Node) map[string]string {
	byKey := map[string]string{}
	var shared []string
	for _, node := range nodes {
		if node == nil || node.Spec.ProviderID == "" {
			continue
		}
		key := NormalizeProviderID(node.Spec.ProviderID)
		if other, taken := byKey[key]; taken && other != node.Spec.ProviderID {
			shared = append(shared, key)
		}
		byKey[key] = node.Spec.ProviderID
	}
	slices.Sort(shared)
	for _, key := range shared {
		delete(byKey, key)
	}
	return byKey
}
