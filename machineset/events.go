package machineset

import (
	"fmt"
	"strings"
)

// Reasons and actions of the events that the reconciler records on a set. The reasons are Cluster API's.
const (
	eventCreate       = "SuccessfulCreate"
	eventFailedCreate = "FailedCreate"
	eventDelete       = "SuccessfulDelete"
	eventFailedDelete = "FailedDelete"
	eventAdopt        = "SuccessfulAdopt"
	eventFailedAdopt  = "FailedAdopt"
	eventRelease      = "SuccessfulRelease"
	actionCreate      = "CreateMachine"
	actionDelete      = "DeleteMachine"
	actionAdopt       = "AdoptMachine"
	actionRelease     = "ReleaseMachine"
)

// named names Machines in an event: one as Cluster API does, of many the first ones.
func named(names []string) string {
	if len(names) == 1 {
		return fmt.Sprintf("Machine %q", names[0])
	}
	listed := strings.Join(names[:min(len(names), maxNames)], ", ")
	if more := len(names) - maxNames; more > 0 {
		listed += fmt.Sprintf(", ... (%d more)", more)
	}
	return fmt.Sprintf("%d Machines: %s", len(names), listed)
}
