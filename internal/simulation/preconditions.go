package simulation

import (
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// DeletesByUID is the invariant that is checked before each deletion of a process. Another object may have the name by now.
const DeletesByUID = "an object is deleted by the UID that was read, and not by its name alone"

func deletesByUID(obj client.Object, options []client.DeleteOption) error {
	only := (&client.DeleteOptions{}).ApplyOptions(options).Preconditions
	if only == nil || only.UID == nil {
		return fmt.Errorf("%s %s is deleted by its name", obj.GetObjectKind().GroupVersionKind().Kind, obj.GetName())
	}
	return nil
}
