package machine

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
)

// farewell is what a process knows about the deletion of a Machine's objects. An object that the API server confirmed as gone stays gone,
// and a delete request that it accepted is not repeated: caches show both later.
type farewell struct {
	machine types.UID
	gone    map[goneObject]struct{}
	asked   map[types.UID]time.Time
	// drained and detached are the Nodes whose drain and volumes are completed, where the record of that can wait for another write.
	drained, detached types.UID
}

type goneObject struct {
	gvk  schema.GroupVersionKind
	name types.NamespacedName
}

// isGone reports whether an object of a Machine is known to be gone.
func (m *memory) isGone(machine *contract.MachineState, object goneObject) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.farewells[machine.Key]
	_, found := known.gone[object]
	return found && known.machine == machine.UID
}

// doneWith remembers which Nodes were drained and had their volumes detached, until doneBefore is called.
func (m *memory) doneWith(machine *contract.MachineState, drained, detached types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.farewellLocked(machine)
	known.drained, known.detached = drained, detached
	m.farewells[machine.Key] = known
}

func (m *memory) doneBefore(machine *contract.MachineState) (drained, detached types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.farewells[machine.Key]
	if known.machine != machine.UID {
		return "", ""
	}
	return known.drained, known.detached
}

// setGone remembers that an object of a Machine is gone.
func (m *memory) setGone(machine *contract.MachineState, object goneObject) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.farewellLocked(machine).gone[object] = struct{}{}
}

// asked returns when the API server accepted the deletion of an object of a Machine, zero before.
func (m *memory) asked(machine *contract.MachineState, object types.UID) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.farewells[machine.Key]
	if known.machine != machine.UID {
		return time.Time{}
	}
	return known.asked[object]
}

// setAsked remembers that the API server accepted the deletion of an object of a Machine.
func (m *memory) setAsked(machine *contract.MachineState, object types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.farewellLocked(machine).asked[object] = m.clock.Now()
}

func (m *memory) farewellLocked(machine *contract.MachineState) farewell {
	known, found := m.farewells[machine.Key]
	if !found || known.machine != machine.UID {
		known = farewell{machine: machine.UID, gone: map[goneObject]struct{}{}, asked: map[types.UID]time.Time{}}
		m.farewells[machine.Key] = known
	}
	return known
}
