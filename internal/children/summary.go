package children

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// Summary is the input of the conditions and numbers of a set or a deployment: its Machines. It changes none of its fields.
type Summary struct {
	// Desired is the desired number of Machines. Deleting: the owner is being deleted.
	Desired  contract.Opt[int32]
	Deleting bool
	// MinReady is how long a Node must be ready before it counts as available.
	MinReady time.Duration
	// Machines are the Machines of the owner, including those that are being deleted.
	Machines []*contract.MachineState
	// TemplateLabels are the labels of the template. Rule: Cluster API counts by them, not by the labels that a set adds.
	TemplateLabels map[string]string
	// Holds prevent the owner from creating, in the order of the message.
	Holds []scale.Hold
	// Kept are the reasons why surplus Machines are not deleted; KeptCause is the condition reason for that, which Cluster API does not have.
	Kept      []string
	KeptCause string
	// Left are the remaining objects, other than Machines, that an owner in deletion waits for; LeftAs is the word for them.
	Left   []string
	LeftAs string
	Now    time.Time
}

// Counters are the numbers of a status.
type Counters struct {
	Replicas, Ready, Available, UpToDate   int32
	FullyLabeled, NodeReady, NodeAvailable int32
}

// Reasons of conditions that only sets and deployments have. Their other conditions and reasons are those of package contract.
const (
	ReasonUpToDateUnknown = "UpToDateUnknown" // it is unknown whether a Machine is up to date; the reason is Cluster API's
	// ReasonMachineDeletionFailed is the reason of the condition ScalingDown while the API server refuses to delete a Machine.
	ReasonMachineDeletionFailed = "MachineDeletionFailed"
)

// Count counts the Machines, and returns when time alone changes a number, zero when it does not: the age of a Node depends on the clock of
// another machine, which may be ahead. A Machine that is changed in place is neither ready nor available nor up to date, whatever its
// conditions.
func (f Summary) Count() (c Counters, again time.Duration) {
	c = Counters{Replicas: int32(len(f.Machines))}
	template := labels.SelectorFromValidatedSet(f.TemplateLabels)
	for _, m := range f.Machines {
		if template.Matches(labels.Set(m.Labels)) {
			c.FullyLabeled++
		}
		if ready, found := engine.Find(m.Conditions, contract.ConditionNodeReady); found && ready.Status == metav1.ConditionTrue {
			c.NodeReady++
			if left := ready.LastTransitionTime.Add(f.MinReady).Sub(f.Now); left > 0 {
				again = engine.Soonest(again, left)
			} else {
				c.NodeAvailable++
			}
		}
		if m.UpdatingInPlace() {
			continue
		}
		for kind, n := range map[string]*int32{
			contract.ConditionReady: &c.Ready, contract.ConditionAvailable: &c.Available, contract.ConditionUpToDate: &c.UpToDate,
		} {
			if engine.HasStatus(m.Conditions, kind, metav1.ConditionTrue) {
				*n++
			}
		}
	}
	return c, again
}

// Unobserved returns the common conditions of sets and deployments, except Paused, while their Machines could not be read.
func Unobserved() []metav1.Condition {
	all := make([]metav1.Condition, 0, 8)
	for _, kind := range []string{
		contract.ConditionScalingUp, contract.ConditionScalingDown, contract.ConditionMachinesReady,
		contract.ConditionMachinesUpToDate, contract.ConditionRemediating, contract.ConditionDeleting,
	} {
		all = append(all, engine.Condition(kind, metav1.ConditionUnknown, contract.ReasonInternalError, engine.SeeLogs))
	}
	return all
}

// Conditions returns the common conditions of sets and deployments, except Paused. Types and reasons are Cluster API's.
func (f Summary) Conditions() []metav1.Condition {
	up, down := WaitingForReplicas(contract.ConditionScalingUp), WaitingForReplicas(contract.ConditionScalingDown)
	if desired, known := f.Desired.Get(); known {
		if f.Deleting {
			desired = 0
		}
		up, down = f.scalingUp(desired), f.scalingDown(desired)
	}
	return []metav1.Condition{
		up, down, f.aggregated(contract.ConditionReady, contract.ConditionMachinesReady,
			contract.ReasonNotReady, contract.ReasonReadyUnknown, contract.ReasonReady),
		f.aggregated(contract.ConditionUpToDate, contract.ConditionMachinesUpToDate,
			contract.ReasonNotUpToDate, ReasonUpToDateUnknown, contract.ReasonUpToDate),
		f.remediating(), f.deleting(),
	}
}

// WaitingForReplicas returns a condition of an owner without a number of replicas.
func WaitingForReplicas(kind string) metav1.Condition {
	return engine.Condition(kind, metav1.ConditionUnknown, contract.ReasonWaitingForReplicasSet, "Waiting for spec.replicas set")
}

// scalingUp reports the holds. An owner with as many Machines as desired has another reason while a hold would prevent it from creating,
// unless the templates are missing or Machines are neither adopted nor released: these reasons are Cluster API's own. Holds that Cluster
// API does not have are reasons themselves.
func (f Summary) scalingUp(desired int32) metav1.Condition {
	holds, others := make([]string, 0, len(f.Holds)), []string(nil)
	cause := contract.ReasonScalingBlocked
	for _, h := range f.Holds {
		switch h.Reason {
		case engine.ReasonTemplateMissing, ReasonClaimFailed, ReasonSelectorUnreadable:
			others = append(others, h.Message)
			continue
		case scale.ReasonFrozen, NotShown("Machine"), NotRestored("Machine"):
			cause = h.Reason
		}
		holds = append(holds, h.Message)
	}
	if current := int32(len(f.Machines)); current < desired {
		reason, message := contract.ReasonScalingUp, fmt.Sprintf("Scaling up from %d to %d replicas", current, desired)
		if len(f.Holds) > 0 {
			reason, message = cause, message+" is blocked because:\n* "+strings.Join(slices.Concat(holds, others), "\n* ")
		}
		return engine.Condition(contract.ConditionScalingUp, metav1.ConditionTrue, reason, message)
	}
	const blocked = "Scaling up would be blocked because:"
	reason, message := contract.ReasonNotScalingUp, ""
	switch {
	case f.Deleting:
	case len(others) > 0:
		message = blocked + Bullets(others)
	case len(holds) > 0:
		reason, message = cause, blocked+Bullets(holds)
	}
	return engine.Condition(contract.ConditionScalingUp, metav1.ConditionFalse, reason, message)
}

func (f Summary) scalingDown(desired int32) metav1.Condition {
	current := int32(len(f.Machines))
	if current <= desired {
		return engine.Condition(contract.ConditionScalingDown, metav1.ConditionFalse, contract.ReasonNotScalingDown, "")
	}
	message := fmt.Sprintf("Scaling down from %d to %d replicas", current, desired)
	if len(f.Kept) > 0 {
		message += " is blocked because:" + Bullets(f.Kept)
	}
	return engine.Condition(contract.ConditionScalingDown, metav1.ConditionTrue, cmp.Or(f.KeptCause, contract.ReasonScalingDown), message)
}

// aggregated summarizes a condition of the Machines. Machines with a problem come first, then those whose state is unknown, and other
// messages only without both. Rule: Cluster API's conditions.NewAggregateCondition, which also groups equal messages.
func (f Summary) aggregated(source, target, bad, unknown, good string) metav1.Condition {
	if len(f.Machines) == 0 {
		return engine.Condition(target, metav1.ConditionTrue, contract.ReasonNoReplicas, "")
	}
	byStatus := map[metav1.ConditionStatus][]string{}
	for _, m := range f.Machines {
		c, found := engine.Find(m.Conditions, source)
		if !found {
			c = engine.Condition(source, metav1.ConditionUnknown, "", fmt.Sprintf("Condition %s not yet reported", source))
		}
		if c.Status != metav1.ConditionTrue || c.Message != "" {
			byStatus[c.Status] = append(byStatus[c.Status], "Machine "+m.Key.Name+":"+engine.Indented(c.Message))
		}
	}
	for _, lines := range byStatus {
		slices.Sort(lines)
	}
	status, reason := metav1.ConditionTrue, good
	lines := slices.Concat(byStatus[metav1.ConditionFalse], byStatus[metav1.ConditionUnknown])
	switch {
	case len(byStatus[metav1.ConditionFalse]) > 0:
		status, reason = metav1.ConditionFalse, bad
	case len(lines) > 0:
		status, reason = metav1.ConditionUnknown, unknown
	default:
		lines = byStatus[metav1.ConditionTrue]
	}
	return engine.Condition(target, status, reason, strings.TrimPrefix(Bullets(lines), "\n"))
}

// remediating reports the Machines that failed a health check and whose replacement their owner has begun.
func (f Summary) remediating() metav1.Condition {
	var of Summary
	for _, m := range f.Machines {
		if scale.Ailing(m) {
			of.Machines = append(of.Machines, m)
		}
	}
	if len(of.Machines) == 0 {
		return engine.Condition(contract.ConditionRemediating, metav1.ConditionFalse, contract.ReasonNotRemediating, "")
	}
	c := of.aggregated(contract.ConditionOwnerRemediated, contract.ConditionRemediating, "", "", "")
	return engine.Condition(contract.ConditionRemediating, metav1.ConditionTrue, contract.ReasonRemediating, c.Message)
}

func (f Summary) deleting() metav1.Condition {
	if !f.Deleting {
		return engine.Condition(contract.ConditionDeleting, metav1.ConditionFalse, contract.ReasonNotDeleting, "")
	}
	message := "Deletion completed"
	switch n := len(f.Machines); {
	case n == 1:
		message = "Deleting 1 Machine" + Bullets(f.Kept)
	case n > 1:
		message = fmt.Sprintf("Deleting %d Machines", n) + Bullets(f.Kept)
	case len(f.Left) > 0:
		message = fmt.Sprintf("Deleting %d %s", len(f.Left), f.LeftAs) + Bullets(f.Left)
	}
	return engine.Condition(contract.ConditionDeleting, metav1.ConditionTrue, contract.ReasonDeleting, message)
}

// Digest returns a short text for values, equal for equal values, and empty for values that JSON cannot represent.
func Digest(values ...any) string {
	text, err := json.Marshal(values)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:5])
}

// maxNames is the maximum number of children, or reasons, in a text.
const maxNames = 3

// Bullets lists lines below a head: the first three, and how many more there are.
func Bullets(lines []string) string {
	var text strings.Builder
	for _, line := range lines[:min(len(lines), maxNames)] {
		text.WriteString("\n* " + line)
	}
	if more := len(lines) - maxNames; more > 0 {
		fmt.Fprintf(&text, "\n* And %d more", more)
	}
	return text.String()
}
