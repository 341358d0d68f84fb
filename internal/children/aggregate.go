package children

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// Aggregation describes how one condition of many Machines becomes one of what owns them: a set, a deployment or a pool.
type Aggregation struct {
	// Source is the type of the condition of Machines, and Target that of their owner.
	Source, Target string
	// Bad, Unknown and Good are the reasons when Source is False for a Machine, else not known for one, else True for all.
	Bad, Unknown, Good string
}

// rank is how much a condition counts: the lowest of all decides.
type rank uint8

const (
	rankIssue rank = iota
	rankUnknown
	rankInfo
)

func (r rank) status() metav1.ConditionStatus {
	switch r {
	case rankIssue:
		return metav1.ConditionFalse
	case rankInfo:
		return metav1.ConditionTrue
	case rankUnknown:
	}
	return metav1.ConditionUnknown
}

// group is one or several Machines with the same message.
type group struct {
	message string
	rank    rank
	names   []string
	// first: a Machine of a control plane is among them.
	first bool
}

// maxGroups is how many messages a condition has, and maxNames how many Machines are named for each.
const (
	maxGroups = 3
	maxNames  = 3
)

// Of aggregates the conditions of at least one Machine, which it does not change. Rule: Cluster API's conditions.NewAggregateCondition with
// its default merge strategy: issues first, then what is unknown, and only without both what else is said; of Machines that say the same
// three are named.
func (a Aggregation) Of(machines []*contract.MachineState) metav1.Condition {
	worst, said := rankInfo, map[string]*group{}
	members := map[string]bool{}
	ranks := make([]rank, len(machines))
	messages := make([]string, len(machines))
	for i, m := range machines {
		ranks[i], messages[i] = a.read(m)
		worst = min(worst, ranks[i])
	}
	for i, m := range machines {
		if ranks[i] == rankInfo && (worst < rankInfo || messages[i] == "") {
			continue
		}
		v := said[messages[i]]
		if v == nil {
			v = &group{message: messages[i], rank: ranks[i]}
			said[messages[i]] = v
		}
		_, member := m.Labels[contract.ControlPlaneLabel]
		members[m.Key.Name] = member
		v.rank, v.first = min(v.rank, ranks[i]), v.first || member
		v.names = append(v.names, m.Key.Name)
	}
	groups := make([]*group, 0, len(said))
	for _, v := range said {
		slices.SortFunc(v.names, func(x, y string) int { return cmp.Or(scale.TrueFirst(members[x], members[y]), cmp.Compare(x, y)) })
		groups = append(groups, v)
	}
	reason := map[rank]string{rankIssue: a.Bad, rankUnknown: a.Unknown, rankInfo: a.Good}[worst]
	return engine.Condition(a.Target, worst.status(), reason, messageOf(groups))
}

// read returns the rank and the message of a Machine.
func (a Aggregation) read(m *contract.MachineState) (rank, string) {
	c, found := engine.Find(m.Conditions, a.Source)
	switch {
	case !found:
		return rankUnknown, fmt.Sprintf("Condition %s not yet reported", a.Source)
	case c.Status == metav1.ConditionTrue:
		return rankInfo, c.Message
	case c.Status == metav1.ConditionFalse:
		return rankIssue, c.Message
	}
	return rankUnknown, c.Message
}

// messageOf joins the most important messages, and counts the other Machines.
func messageOf(groups []*group) string {
	slices.SortFunc(groups, func(x, y *group) int {
		return cmp.Or(scale.TrueFirst(x.first, y.first), cmp.Compare(x.rank, y.rank), cmp.Compare(len(y.names), len(x.names)),
			cmp.Compare(strings.Join(x.names, ","), strings.Join(y.names, ",")))
	})
	var lines []string
	var others [rankInfo + 1]int
	for i, v := range groups {
		if i < maxGroups {
			lines = append(lines, bullet(v))
			continue
		}
		others[v.rank] += len(v.names)
	}
	for r, n := range others {
		with := [...]string{"with other issues", "with status unknown", "with additional info"}[r]
		switch {
		case n == 1:
			lines = append(lines, "And 1 Machine "+with)
		case n > 1:
			lines = append(lines, fmt.Sprintf("And %d Machines %s", n, with))
		}
	}
	return strings.Join(lines, "\n")
}

func bullet(v *group) string {
	head := "* Machine " + v.names[0] + ":"
	if len(v.names) > 1 {
		head = "* Machines " + engine.FirstNamed(v.names, maxNames) + ":"
	}
	return head + engine.Indented(v.message)
}
