package machinepool

import (
	"cmp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/noderef"
)

// counts are numbers of instances.
type counts struct {
	Ready, Available, UpToDate int32
	// NotReady are the names of Nodes, or Machines, that are not ready, and Outdated those that are not up to date, in their order.
	NotReady, Outdated []string
	// Again is when one more becomes available by itself; zero when none does.
	Again time.Duration
}

// countNodes counts by the Nodes of the instances. A Node that is being deleted counts as not ready.
func countNodes(nodes []*corev1.Node, minReady time.Duration, version string, now time.Time) counts {
	var c counts
	for _, node := range nodes {
		if hasVersion(node.Status.NodeInfo.KubeletVersion, version) {
			c.UpToDate++
		} else {
			c.Outdated = append(c.Outdated, node.Name)
		}
		if node.DeletionTimestamp != nil || !noderef.Ready(node) {
			c.NotReady = append(c.NotReady, node.Name)
			continue
		}
		c.Ready++
		since, _ := readySince(node)
		if left := since.Add(minReady).Sub(now); minReady > 0 && left > 0 {
			c.Again = pass.Soonest(c.Again, left)
			continue
		}
		c.Available++
	}
	return c
}

// readySince returns since when the condition Ready of a Node has its status, if the Node has the condition.
func readySince(node *corev1.Node) (at time.Time, found bool) {
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady {
			return c.LastTransitionTime.Time, true
		}
	}
	return time.Time{}, false
}

// hasVersion says whether a kubelet has the version of the template; every kubelet has when that names none. Distributions append to
// it, as in v1.36.3+k3s1 or v1.36.3-eks-1234. Managed control planes have versions without a patch, which any patch has.
func hasVersion(kubelet, version string) bool {
	if version == "" {
		return true
	}
	rest, found := strings.CutPrefix(kubelet, version)
	return found && (rest == "" || rest[0] == '+' || rest[0] == '-' || (rest[0] == '.' && strings.Count(version, ".") == 1))
}

// countMachines counts by the conditions of the Machines of the instances, as Cluster API does.
func countMachines(machines []*contract.MachineState, nodes []*corev1.Node, version string) counts {
	var c counts
	kubelets := make(map[string]string, len(nodes))
	for _, node := range nodes {
		kubelets[node.Name] = node.Status.NodeInfo.KubeletVersion
	}
	for _, m := range machines {
		if pass.HasStatus(m.Conditions, contract.ConditionReady, metav1.ConditionTrue) {
			c.Ready++
		} else {
			c.NotReady = append(c.NotReady, m.Key.Name)
		}
		if pass.HasStatus(m.Conditions, contract.ConditionAvailable, metav1.ConditionTrue) {
			c.Available++
		}
		if m.Deleting.IsZero() && hasVersion(cmp.Or(kubelets[m.Node.Name], m.Version), version) {
			c.UpToDate++
		} else {
			c.Outdated = append(c.Outdated, m.Key.Name)
		}
	}
	return c
}
