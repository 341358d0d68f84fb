package simulation

import (
	"fmt"
	"slices"
)

// Parts of a World that a history may have, for Seeds.Needs.
const (
	NeedsPods        = "pods"
	NeedsHealthCheck = "health check"
	NeedsTemplates   = "templates"
	NeedsPool        = "pool"
	NeedsDeployment  = "deployment"
	NeedsCloudHabits = "cloud habits"
)

func parts() []string {
	return []string{NeedsPods, NeedsHealthCheck, NeedsTemplates, NeedsPool, NeedsDeployment, NeedsCloudHabits}
}

// hasAll reports whether a World has all of some parts and faults at its beginning.
func (w *World) hasAll(needs []string) bool {
	has := map[string]bool{
		NeedsPods: w.apps != nil, NeedsHealthCheck: w.health != nil, NeedsTemplates: w.parts && w.pool == nil, NeedsPool: w.pool != nil,
		NeedsDeployment: w.scene.kind == "MachineDeployment", NeedsCloudHabits: w.habits != nil,
	}
	return !slices.ContainsFunc(needs, func(name string) bool { return !has[name] && !w.has(Fault(name)) })
}

// checkNeeds refuses what no history can have: nothing would be run.
func checkNeeds(needs []string) error {
	for _, name := range needs {
		if !slices.Contains(parts(), name) && !slices.Contains(AllFaults(), Fault(name)) {
			return fmt.Errorf("no history has %q: name a part of the World or a fault", name)
		}
	}
	return nil
}
