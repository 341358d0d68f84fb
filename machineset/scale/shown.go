package scale

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// Recovery says what becomes of a set that has no ledger of its own.
type Recovery uint8

// What becomes of a set without a ledger.
const (
	// Begin: it never created anything.
	Begin Recovery = iota
	// Rebuild: it has Machines, so its ledger was lost, or another program has led it: slots begin behind all that can have been taken.
	Rebuild
	// Restore: it had Machines, and none of them is there: it was restored from a backup, or moved, and they may come later.
	Restore
)

// RecoveryFacts are what a Recovery depends on.
type RecoveryFacts struct {
	// Foreign: the ledger that is there is that of another set, which took slots.
	Foreign bool
	// Own is how many Machines the set controls, and Had says that its status tells of Machines.
	Own int
	Had bool
}

// Recover decides what becomes of a set without a ledger of its own. A set whose Machines were all deleted has its ledger, and is no case
// for it.
func Recover(f RecoveryFacts) Recovery {
	switch {
	case f.Own > 0:
		return Rebuild
	case f.Foreign || f.Had:
		return Restore
	}
	return Begin
}

// rebuiltGap is how many slots are left out where a ledger was lost: more than could have been taken and not be seen.
const rebuiltGap = 1 << 20

// Rebuilt returns the ledger of a set that has lost its own, behind the highest slot that was seen and all that can have been taken since.
func Rebuilt(set types.UID, highest int64) Ledger {
	return Ledger{Set: set, Next: max(highest, 0) + rebuiltGap}
}

// RestoreIsOver reports whether a set that waits for its Machines since a restore creates new ones again: as many exist as desired, or the
// annotation of a person allows it.
func (l Ledger) RestoreIsOver(machines, desired int, said bool) bool {
	return l.Restoring && (machines >= desired || said)
}

// Live is a Machine as the API server returns it.
type Live struct {
	Name            string
	UID             types.UID
	ResourceVersion string
}

// CacheFacts are the inputs of the decision whether a cache shows the Machines of a set.
type CacheFacts struct {
	// Live are the Machines that the API server returned after the cache was read, and Shown those in the cache, by name.
	Live  []Live
	Shown map[string]types.UID
	// Seen is a resource version up to which the cache had seen everything, empty when it cannot say.
	Seen string
	// Since is for how long Machines have been missing in the cache.
	Since time.Duration
}

// Cached says what a cache shows of the Machines that the API server has.
type Cached uint8

// What a cache shows.
const (
	// ShowsAll Machines.
	ShowsAll Cached = iota
	// Behind: it may show the others later.
	Behind
	// LeavesOut Machines for good.
	LeavesOut
)

// CacheLimit is for how long a cache of which nothing else is known is taken for late before it is said to leave Machines out.
const CacheLimit = 30 * time.Second

// Compare says what a cache shows, and names the Machines that it does not show, sorted. A cache that has seen the version at which a
// Machine is now and does not show it leaves it out; of one that cannot say what it has seen, time tells.
func Compare(f CacheFacts) (Cached, []string) {
	var missing, left []string
	for _, m := range f.Live {
		if f.Shown[m.Name] == m.UID {
			continue
		}
		missing = append(missing, m.Name)
		if order, err := resourceversion.CompareResourceVersion(f.Seen, m.ResourceVersion); err == nil && order >= 0 {
			left = append(left, m.Name)
		}
	}
	slices.Sort(missing)
	slices.Sort(left)
	switch {
	case len(left) > 0:
		return LeavesOut, left
	case len(missing) == 0:
		return ShowsAll, nil
	case f.Since >= CacheLimit:
		return LeavesOut, missing
	}
	return Behind, missing
}
