package healthcheck

import (
	"time"

	"github.com/machinist-dev/machinist/contract"
)

const (
	// DefaultNodeStartup is how long a Machine may be without a Node when a check does not say it. The value is Cluster API's.
	DefaultNodeStartup = 10 * time.Minute
	// NodeStartupAnnotation of a Machine replaces Checks.NodeStartup, with a duration such as 25m; 0 means no limit. Templates copy it to
	// their Machines, so that a template of machines that boot slowly has a limit of its own.
	NodeStartupAnnotation = "machinist.dev/node-startup-timeout"
	// JoinAnnotation of a Machine replaces Checks.Join in the same way.
	JoinAnnotation = "machinist.dev/node-join-timeout"
	// RemediateAnnotation of a Machine, with any value, requests its remediation. Rule: Cluster API's.
	RemediateAnnotation = "cluster.x-k8s.io/remediate-machine"
	// SkipAnnotation of a Machine, with any value, keeps checks from judging it. Rule: Cluster API's.
	SkipAnnotation = "cluster.x-k8s.io/skip-remediation"
)

// Checks are what makes a Machine unhealthy. The zero Checks find only Nodes that were deleted and Machines that failed: one without a Node
// whose failureReason or failureMessage is set is unhealthy at once, because its provider has said that its creation will not succeed.
type Checks struct {
	// Node and Machine are rules about conditions of the Node, those of node-problem-detector included, and of the Machine. A Machine is
	// unhealthy when one of them applies.
	Node, Machine []contract.HealthRule
	// NodeStartup is how long a Machine may be without a Node: since it was created, the Cluster was ready or its own infrastructure was
	// ready, whichever was last. Zero: for ever.
	NodeStartup time.Duration
	// Join is how long a Machine may be without a Node since its infrastructure was ready. Zero: for ever.
	Join time.Duration
}

// ChecksOf returns the checks of a MachineHealthCheck, with its default.
func ChecksOf(check *contract.HealthCheckState) Checks {
	return Checks{Node: check.NodeRules, Machine: check.MachineRules, NodeStartup: check.NodeStartup.Or(DefaultNodeStartup)}
}

// limits returns the limits for one Machine. Where an annotation is no duration, the limit of the check applies.
func (c *Checks) limits(annotations map[string]string) (startup, join time.Duration) {
	startup, join = c.NodeStartup, c.Join
	for _, limit := range []struct {
		key  string
		into *time.Duration
	}{{NodeStartupAnnotation, &startup}, {JoinAnnotation, &join}} {
		if d, err := time.ParseDuration(annotations[limit.key]); err == nil && d >= 0 {
			*limit.into = d
		}
	}
	return startup, join
}
