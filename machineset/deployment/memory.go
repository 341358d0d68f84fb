package deployment

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machineset/children"
)

// recollection is what a process remembers of one deployment between passes. Losing it costs time and reads, never correctness.
type recollection struct {
	sets     *children.Memory[contract.MachineSetState]
	machines map[types.UID]known
	statusAt time.Time
	// current: the API server has confirmed once that the cache shows the sets as they are.
	confirmed bool
}

// known is a Machine as it was read last, so that one that did not change is not read again.
type known struct {
	resourceVersion string
	state           *contract.MachineState
}

func newRecollection() *recollection {
	return &recollection{sets: children.NewMemory[contract.MachineSetState](), machines: map[types.UID]known{}}
}

func (r *recollection) machine(kind contract.Kind, obj contract.Object) (*contract.MachineState, error) {
	if k, found := r.machines[obj.GetUID()]; found && k.resourceVersion == obj.GetResourceVersion() {
		return k.state, nil
	}
	state := new(contract.MachineState)
	if err := kind.Adapter.Read(obj, state); err != nil {
		return nil, err
	}
	r.machines[obj.GetUID()] = known{obj.GetResourceVersion(), state}
	return state, nil
}

// keep forgets the Machines that are not among those observed.
func (r *recollection) keep(observed map[types.UID]bool) {
	for uid := range r.machines {
		if !observed[uid] {
			delete(r.machines, uid)
		}
	}
}
