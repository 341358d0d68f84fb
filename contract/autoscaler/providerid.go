package autoscaler

import "strings"

// NormalizeProviderID returns the key under which the autoscaler finds a Machine, a MachinePool or a Node by provider ID: the
// text after the last slash, or the whole ID of an instance in an Azure scale set, whose last segment is only a number.
//
// The key is shorter than the ID, so different instances may share one, and the autoscaler then gives up on them ("internal
// error"). Use it to find such clashes (CheckMachines does). To tell which Node belongs to which Machine, compare whole IDs.
func NormalizeProviderID(id string) string {
	if strings.HasPrefix(id, "azure://") && strings.Contains(id, "virtualMachineScaleSets") {
		return id
	}
	return id[strings.LastIndexByte(id, '/')+1:]
}
