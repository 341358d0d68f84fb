package bench

import (
	"context"
	"errors"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
	"github.com/machinist-dev/machinist/examples/lab/floor"
)

// written are the resources whose writes a floor repeats.
func written() []schema.GroupResource {
	infra, config := fake.InfraMachineGVK(contract.V1Beta2), fake.BootstrapConfigGVK(contract.V1Beta2)
	all := []schema.GroupResource{
		{Resource: "nodes"}, {Resource: "pods"}, {Group: "events.k8s.io", Resource: "events"},
		{Group: infra.Group, Resource: "fakemachines"}, {Group: infra.Group, Resource: "fakemachinetemplates"},
		{Group: config.Group, Resource: "fakeconfigs"}, {Group: config.Group, Resource: "fakeconfigtemplates"},
	}
	for _, resource := range []string{"machines", "machinesets", "machinedeployments"} {
		all = append(all, schema.GroupResource{Group: fake.MachineGVK().Group, Resource: resource})
	}
	return all
}

// beside is the floor of a trial; nil without --floor.
type beside struct{ *floor.Floor }

func (t *trial) startFloor(ctx context.Context, since cluster.AuditMark) (beside, error) {
	if !t.floor {
		return beside{}, nil
	}
	f, err := floor.Start(ctx, t.plane, t.manager[0].Agent, since)
	return beside{f}, err
}

// stop ends the floor behind the manager, and adds its CPU seconds to the figures. It returns the error of the trial and its own.
func (b beside) stop(t *trial, failed error) error {
	if b.Floor == nil {
		return failed
	}
	cpu, words, err := b.Stop()
	t.printf("floor: %s", words)
	t.Figures["floor cpu"] = cpu
	return errors.Join(failed, err)
}
