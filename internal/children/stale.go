package children

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
)

// delays are the causes that messages of drains name, in the order in which a condition lists them.
func delays() []struct{ said, means string } {
	return []struct{ said, means string }{
		{"cannot evict pod as it would violate the pod's disruption budget.", "PodDisruptionBudgets"},
		{"deletionTimestamp set, but still not removed from the Node", "Pods not terminating"},
		{"failed to evict Pod", "Pod eviction errors"},
		{"waiting for completion", "Pods not completed yet"},
	}
}

// stale is the line about Machines whose deletion lasts long, empty without any, and when the next one joins them, or their drains count
// as the cause. Rule: Cluster API's aggregateStaleMachines.
func (f Summary) stale() (string, time.Duration) {
	var names []string
	again := time.Duration(0)
	causes := map[string]bool{}
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
		again = engine.Soonest(again, f.causesOf(m, causes))
	}
	if len(names) == 0 {
		return "", again
	}
	message := "\n* " + machinesAre(names) + "in deletion since more than 15m"
	var told []string
	for _, d := range delays() {
		if causes[d.means] {
			told = append(told, d.means)
		}
	}
	if len(told) > 0 {
		message += ", delay likely due to " + strings.Join(told, ", ")
	}
	return message, again
}

// causesOf adds the causes of a drain that lasts long, and returns when a shorter one becomes one.
func (f Summary) causesOf(m *contract.MachineState, into map[string]bool) (again time.Duration) {
	c, found := engine.Find(m.Conditions, contract.ConditionDeleting)
	if !found || c.Status != metav1.ConditionTrue || c.Reason != contract.ReasonDrainingNode || m.DrainStarted.IsZero() {
		return 0
	}
	if since := f.Now.Sub(m.DrainStarted); since <= engine.LongDrain {
		return engine.LongDrain - since + time.Second
	}
	for _, d := range delays() {
		if strings.Contains(c.Message, d.said) {
			into[d.means] = true
		}
	}
	return 0
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
