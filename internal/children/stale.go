package children

import (
	"slices"
	"time"

	"github.com/machinist-dev/machinist/internal/engine"
)

// stale is the line about Machines whose deletion lasts long, empty without any, and when the next one joins them: each of them has the
// cause in its own condition. Rule: Cluster API's aggregateStaleMachines.
func (f Summary) stale() (string, time.Duration) {
	var names []string
	again := time.Duration(0)
	for _, m := range f.Machines {
		if m.Deleting.IsZero() {
			continue
		}
		since := f.Now.Sub(m.Deleting)
		if since <= engine.LongDeletion {
			again = engine.Soonest(again, engine.LongDeletion-since+time.Second)
			continue
		}
		names = append(names, m.Key.Name)
	}
	if len(names) == 0 {
		return "", again
	}
	return "\n* " + machinesAre(names) + "in deletion since more than 15m", again
}

// machinesAre begins a sentence about Machines, three of which are named.
func machinesAre(names []string) string {
	names = slices.Sorted(slices.Values(names))
	subject, verb := "Machines ", " are "
	if len(names) == 1 {
		subject, verb = "Machine ", " is "
	}
	return subject + engine.FirstNamed(names, maxNames) + verb
}
