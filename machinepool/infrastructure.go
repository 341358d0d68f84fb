package machinepool

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/noderef"
)

// infrastructureFacts are the inputs of decideInfrastructure.
type infrastructureFacts struct {
	Kind        string // of the pool
	External    external.Object
	Pool        contract.InfraMachinePoolState // read when External is Present
	Provisioned bool                           // reported before; it is never reset
	Deleting    bool
	// Known are the pool's stored provider IDs, and Observed is the recorded number of instances.
	Known    []string
	Observed contract.Opt[int32]
	Rules    noderef.Rules
}

// infrastructureDecision is the result of decideInfrastructure.
type infrastructureDecision struct {
	// IDs are the provider IDs to record, sorted and without duplicates; absent when those of the pool do not change.
	IDs contract.Opt[[]string]
	// Complete: the IDs are all instances that exist, according to the provider.
	Complete bool
	// Replicas is the provider's number of instances, absent when it reports none.
	Replicas contract.Opt[int32]
	// Provisioned: the group exists, or once did.
	Provisioned bool
	Condition   metav1.Condition
	Failure     engine.Failure
}

// decideInfrastructure applies the contract: no value is copied before the provider reports the group as provisioned. Afterwards values are
// copied in every pass, even from a provider that reports it as not provisioned while it scales (cluster-api-provider-azure#4982). A
// missing list has no meaning unless the provider reports that there are no instances, and an empty list while instances exist means that
// their IDs are not known yet (contract.InfraMachinePoolState.Listed). A number that is no longer reported is not zero. In a deletion no ID
// is removed, and no report is waited for (inDeletion). Rule: contract page "InfraMachinePool".
func decideInfrastructure(f infrastructureFacts) infrastructureDecision {
	d := infrastructureDecision{Provisioned: f.Provisioned}
	if f.External.Presence == external.NotReferenced {
		d.Condition = engine.Condition(contract.ConditionInfrastructureReady, metav1.ConditionFalse, contract.ReasonDoesNotExist,
			"the pool refers to no infrastructure: set its reference")
		return d
	}
	if !f.External.Usable() {
		d.Condition = engine.Unavailable(contract.ConditionInfrastructureReady, f.Kind, f.External, f.Provisioned, f.Deleting)
		d.Failure = missingInfrastructure(f)
		return d
	}
	kind, ready := f.External.Ref.Kind, f.Pool.Provisioned || f.Provisioned
	d.Failure = engine.FailureOf(f.External, f.Pool.FailureReason, f.Pool.FailureMessage)
	d.Condition = engine.Mirror(contract.ConditionInfrastructureReady, f.Pool.Ready,
		engine.Initialized(contract.ConditionInfrastructureReady, f.Pool.Provisioned, kind+" status.initialization.provisioned is false"))
	ids := instanceIDs(f.Pool.ProviderIDList, f.Rules)
	if f.Deleting {
		d.IDs = f.inDeletion(ids)
	}
	if !ready || f.External.Deleting() {
		return d
	}
	d.Provisioned, d.Replicas = true, f.Pool.Replicas
	if wrong := unacceptable(ids, f.Pool.Replicas); wrong != "" {
		d.Replicas = contract.Opt[int32]{}
		d.Condition = engine.Condition(contract.ConditionInfrastructureReady, metav1.ConditionFalse, external.ReasonContractViolation,
			fmt.Sprintf(
				"%s %s breaks contract %s: %s", kind, f.External.Ref.Name, f.External.Contract, wrong))
		return d
	}
	replicas := f.Pool.Replicas.Or(f.Observed.Or(0))
	if !f.Pool.Listed() || (len(ids) == 0 && replicas != 0) {
		return d
	}
	d.Complete = int64(len(ids)) >= int64(replicas)
	if !f.Deleting && !slices.Equal(ids, f.Known) {
		d.IDs = contract.Some(ids)
	}
	return d
}

// inDeletion returns the provider IDs to record in a deletion, absent when those of the pool do not change. The deletion of the group ends
// all instances that were ever listed, including those of a list from before the group is provisioned, and those missing in a list with
// another form of IDs. Their Nodes must be drained and deleted.
func (f *infrastructureFacts) inDeletion(listed []string) contract.Opt[[]string] {
	all := instanceIDs(slices.Concat(f.Known, listed), f.Rules)
	if unacceptable(all, f.Pool.Replicas) != "" || slices.Equal(all, f.Known) {
		return contract.Opt[[]string]{}
	}
	return contract.Some(all)
}

// missingInfrastructure is the failure of a pool whose infrastructure object was deleted; it ends when the object exists again.
func missingInfrastructure(f infrastructureFacts) engine.Failure {
	if f.External.Presence != external.Absent || !f.Provisioned || f.Deleting {
		return engine.Failure{}
	}
	return engine.Failure{Reason: engine.ReasonInvalidConfiguration, Message: fmt.Sprintf(
		"MachinePool infrastructure resource %s with name %q has been deleted after being ready", f.External.Ref.Kind, f.External.Ref.Name)}
}

// maxProviderIDLength is the limit in cluster.x-k8s.io/v1beta2. The API server rejects a whole write for a longer ID.
const maxProviderIDLength = 512

// unacceptable describes the provider's value that a pool cannot store, empty when it can store all.
func unacceptable(ids []string, replicas contract.Opt[int32]) string {
	if n := replicas.Or(0); n < 0 {
		return fmt.Sprintf("status.replicas is %d", n)
	}
	at := slices.IndexFunc(ids, func(id string) bool { return len(id) > maxProviderIDLength })
	if at >= 0 {
		return fmt.Sprintf("spec.providerIDList has an ID of %d characters, at most %d are allowed: %s ...",
			len(ids[at]), maxProviderIDLength, ids[at][:40])
	}
	return ""
}

// observeInfrastructure reads the InfraMachinePool, becomes its controller and copies its values.
func (p *Scope) observeInfrastructure(ctx context.Context) error {
	facts := infrastructureFacts{
		Kind:        p.env.kinds.Pool.GVK.Kind,
		Provisioned: p.State.InfrastructureReady.Or(false), Deleting: p.Deleting(), Known: p.State.ProviderIDs,
		Observed: p.State.ObservedReplicas, Rules: p.env.options.Matching,
	}
	read := func(e external.Object) error {
		return contract.LayoutsOf(e.Contract).InfraMachinePool.Read(e.Object, &facts.Pool)
	}
	found, err := p.ReadReferenced(ctx, contract.ConditionInfrastructureReady, p.State.Template.Infrastructure, nil, read)
	p.infrastructure = found
	if err != nil {
		return err
	}
	facts.External = found
	d := decideInfrastructure(facts)
	p.failure = cmp.Or(p.failure, d.Failure)
	p.Assert(d.Condition)
	p.complete = d.Complete
	if found.Usable() {
		p.machineKind = facts.Pool.InfrastructureMachineKind
	}
	if ids, changed := d.IDs.Get(); changed {
		p.State.ProviderIDs, p.Update.ProviderIDs = ids, contract.SetTo(ids)
	}
	if n, reported := d.Replicas.Get(); reported {
		engine.SetOpt(&p.State.ObservedReplicas, n, &p.Update.ObservedReplicas)
	}
	if d.Provisioned {
		engine.SetOpt(&p.State.InfrastructureReady, true, &p.Update.InfrastructureReady)
	}
	return nil
}

// observeBootstrap reads the BootstrapConfig, becomes its controller and copies the name of its data Secret.
func (p *Scope) observeBootstrap(ctx context.Context) error {
	facts := engine.BootstrapFacts{
		Kind: p.env.kinds.Pool.GVK.Kind, Named: namesData(&p.State.Template.MachineSpec),
		Created: p.State.BootstrapReady.Or(false), Deleting: p.Deleting(),
	}
	read := func(e external.Object) error {
		return contract.LayoutsOf(e.Contract).BootstrapConfig.Read(e.Object, &facts.Config)
	}
	found, err := p.ReadReferenced(ctx, contract.ConditionBootstrapConfigReady, p.State.Template.Bootstrap, nil, read)
	p.bootstrap = found
	if err != nil {
		return err
	}
	facts.External = found
	d := engine.DecideBootstrap(facts)
	p.failure = cmp.Or(p.failure, d.Failure)
	p.Assert(d.Condition)
	if name, set := d.DataSecretName.Get(); set {
		engine.SetOpt(&p.State.Template.DataSecretName, name, &p.Update.DataSecretName)
	}
	if d.Created {
		engine.SetOpt(&p.State.BootstrapReady, true, &p.Update.BootstrapReady)
	}
	return nil
}

// namesData reports whether a template names the Secret with its data. The empty name counts if there is no config that could name one.
func namesData(template *contract.MachineSpec) bool {
	name, found := template.DataSecretName.Get()
	return found && (name != "" || template.Bootstrap.IsZero())
}
