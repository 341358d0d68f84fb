//go:build e2e

package e2e_test

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machineset/scale"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// made is which machines a provider was asked to make, by the slot that they were made for.
type made struct {
	mu    sync.Mutex
	slots map[string]map[types.UID]string
}

// note is a delay of no time.
func (m *made) note(obj *unstructured.Unstructured) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	stamp := scale.ReadStamp(obj.GetAnnotations())
	slot := fmt.Sprint(stamp.Set, "/", stamp.Slot)
	if m.slots[slot] == nil {
		m.slots[slot] = map[types.UID]string{}
	}
	m.slots[slot][obj.GetUID()] = obj.GetName()
	return 0
}

// one checks that no slot ever had two machines, and returns how many there were in all.
func (m *made) one(t *testing.T) int {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	for slot, machines := range m.slots {
		if len(machines) > 1 {
			t.Errorf("slot %s has had %d machines: %v", slot, len(machines), machines)
		}
	}
	return len(m.slots)
}

// A set is scaled 0 -> 200 -> 50 -> 120 -> 0 by a manager that is killed three times on the way, beside a second one that thinks that it
// leads too.
func TestE2EASetNeverHasTwoMachinesForASlotWhateverHappensToItsManagers(t *testing.T) {
	w := newSetWorld(t)
	vms := &made{slots: map[string]map[types.UID]string{}}
	w.startProviders(worldOptions{infrastructure: fake.Infrastructure{ProviderOptions: fake.ProviderOptions{Delay: vms.note}}})
	binary := managerBinary(t)
	second := w.setManager(binary)
	first := w.setManager(binary)
	t.Cleanup(func() {
		first.stop()
		second.stop()
		if t.Failed() {
			fmt.Fprintln(os.Stderr, second.log.String())
		}
	})
	objects := w.apply(setDocument("chaos", 0))
	set := objects[2]
	start := time.Now()
	for _, n := range []int64{200, 50, 120} {
		before := len(w.listed(fake.MachineGVK()))
		w.scaleTo(set, n)
		w.eventually("be on the way", func() string {
			if now := len(w.listed(fake.MachineGVK())); now == before {
				return "nothing has happened"
			}
			return ""
		})
		first.kill()
		first = w.setManager(binary)
		w.setHas(set, int(n))
		t.Logf("%d Machines after %s", n, time.Since(start).Round(time.Second))
	}
	ledger, err := scale.ParseLedger(w.get(set).GetAnnotations()[scale.LedgerAnnotation])
	require.NoError(t, err)
	require.Empty(t, ledger.Pending)
	w.scaleTo(set, 0)
	w.setHas(set, 0)
	t.Logf("all gone after %s, %d slots were taken", time.Since(start).Round(time.Second), ledger.Next-1)
	total := vms.one(t)
	require.GreaterOrEqual(t, total, 270)
	require.NoError(t, w.client.Delete(t.Context(), set))
	w.gone(set)
	w.nothingLeft()
	for _, template := range objects[:2] {
		require.NoError(t, w.client.Delete(t.Context(), template))
	}
}
