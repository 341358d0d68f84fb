package machine

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/noderef"
)

// Policy holds the decisions that an embedder can replace one by one. A nil member decides as Cluster API does, unless it says
// something else. The functions are called in every pass that needs them, from several goroutines, and must not wait for
// anything; they neither keep nor change what they are given. The Policy must not be changed after New.
type Policy struct {
	// NodeCare says what to do about the Node of a Machine that is being deleted, and why. It is asked once in every pass
	// of such a Machine, before any stage, also when the Nodes or the Cluster could not be read. Nil: DefaultNodeCare, which a
	// function may call for the cases that it leaves as they are.
	NodeCare func(NodeCareFacts) (NodeCare, CareReason)
	// Limits says how long each stage of a deletion may take. It may be asked several times in a pass, and what it says counts at
	// once. Nil: DefaultLimits.
	Limits func(*contract.MachineState) Limits
	// Unreachable says whether a stage of a deletion that cannot read the Nodes is waited for or left out, and why it is left out,
	// for people. It is asked in every pass in which that is so, and never for a Machine with CareNone. Nil: DefaultUnreachable.
	Unreachable func(UnreachableFacts) (Unreachable, string)
	// EarlyProviderID has a Machine take over the provider ID as soon as its InfraMachine names an instance, and not only when that is
	// reported as provisioned, so that its Node is recorded when it appears. The phase Provisioned of phases.ClusterAPIV1Alpha3 is
	// reached only so; phases.ClusterAPI calls a Machine with a provider ID Provisioned. Default false, as the contract says.
	EarlyProviderID bool
	// Updating computes the condition Updating; its type is filled in.
	Updating func(*contract.MachineState) metav1.Condition
	// Health says what makes a Node healthy, for the condition NodeHealthy. The zero HealthRules ask for nothing.
	Health *noderef.HealthRules
	// DrainRules are the rules by which the Node of a Machine is drained and its volumes are waited for; nil, and a nil result, mean
	// those of the Drainer. An error holds the drain up and is retried with back-off. A result must not be changed later.
	DrainRules func(context.Context, *Scope) ([]drain.Rule, error)
	// DrainPolicy says how drains escalate, and what becomes of the pods of a Node that does not answer or whose machine is off. When it
	// gives a drain up (drain.ModeAbandon), the deletion goes on as at a limit. Nil: drain.DefaultPolicy. New validates it.
	DrainPolicy *drain.Policy
}
