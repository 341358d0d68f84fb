package machinepool

import (
	"cmp"
	"context"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
)

// observeBootstrap reads the BootstrapConfig, becomes its controller and copies the name of its data.
func (p *Scope) observeBootstrap(ctx context.Context) error {
	facts := engine.BootstrapFacts{
		Kind: p.env.kinds.Pool.GVK.Kind, Named: namesData(&p.State.Template.MachineSpec),
		Created: p.State.BootstrapReady.Or(false), Deleting: p.Deleting(),
	}
	read := func(e external.Object) error {
		return contract.BootstrapConfig(e.Contract).Read(e.Object, &facts.Config)
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

// namesData reports whether a template names the Secret with its data. The empty name counts where there is no config that could name one.
func namesData(template *contract.MachineSpec) bool {
	name, found := template.DataSecretName.Get()
	return found && (name != "" || template.Bootstrap.IsZero())
}
