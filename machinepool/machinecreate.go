package machinepool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
)

// madeGrace is how long the pool does not create a Machine again that no cache shows. It may have been deleted meanwhile.
const madeGrace = 30 * time.Second

// decideMade parts the Machines that are missing into those to make and those that were made a moment ago, by when that was, and says
// when the first of these is missed; zero without any. It changes nothing.
func decideMade(missing []string, made map[string]time.Time, now time.Time) (names []string, waiting map[string]time.Time, again time.Duration) {
	waiting = map[string]time.Time{}
	for _, name := range missing {
		if left := made[name].Add(madeGrace).Sub(now); left > 0 {
			waiting[name], again = made[name], pass.Soonest(again, left)
			continue
		}
		names = append(names, name)
	}
	return names, waiting, again
}

// kubelets are the versions of instances, by the names of their InfraMachines: an instance can be older than its Machine.
func (p *Scope) kubelets(names []string) map[string]string {
	layout := contract.InfraMachine(p.infrastructure.Contract)
	if len(names) == 0 || layout == nil {
		return nil
	}
	rules, ids := p.env.options.Matching, make(map[string]string, len(p.match.Nodes))
	for _, node := range p.match.Nodes {
		ids[rules.Key(node.Spec.ProviderID)] = node.Status.NodeInfo.KubeletVersion
	}
	versions := make(map[string]string, len(names))
	for _, name := range names {
		id, _, err := layout.ProviderID.Get(p.machines.infra[name].Object)
		if key := rules.Key(id); err == nil && key != "" {
			versions[name] = ids[key]
		}
	}
	return versions
}

func (p *Scope) createMachines(ctx context.Context, missing []string) error {
	names, waiting, again := decideMade(missing, p.mem().made, p.Now)
	p.mem().made = waiting
	p.Requeue(again)
	labels, annotations := p.machineMetadata()
	kubelets := p.kubelets(names)
	made, there, foreign := make([]bool, len(names)), make([]bool, len(names)), make([]bool, len(names))
	err := p.each(len(names), func(i int) error {
		machine, err := p.env.kinds.NewMachine(Seed{
			Key:    types.NamespacedName{Namespace: p.State.Key.Namespace, Name: names[i]},
			Labels: maps.Clone(labels), Annotations: maps.Clone(annotations), // others are made at the same time
			Owner: p.OwnerReference(), ClusterName: p.State.ClusterName, Version: cmp.Or(kubelets[names[i]], p.State.Template.Version),
			Infrastructure:        contract.Ref{Group: p.machines.gvk.Group, Kind: p.machines.gvk.Kind, Name: names[i]},
			InfrastructureVersion: p.machines.gvk.Version,
		})
		obj, ok := machine.(client.Object)
		if err != nil || !ok {
			return errors.Join(err, fmt.Errorf("make Machine %s: got %T", names[i], machine))
		}
		err = p.env.frame.Ports.Client.Create(ctx, obj)
		if apierrors.IsAlreadyExists(err) {
			there[i], err = p.alreadyThere(ctx, names[i])
			there[i], foreign[i] = there[i] && err == nil, errors.Is(err, errForeignMachine)
			return err
		}
		made[i] = err == nil
		if err != nil {
			return fmt.Errorf("create Machine %s: %w", names[i], err)
		}
		return nil
	})
	var told []string
	for i, name := range names {
		if made[i] || there[i] {
			p.mem().made[name] = p.Now
		}
		if made[i] {
			told = append(told, name)
		}
		if foreign[i] {
			p.machines.foreign = append(p.machines.foreign, name)
		}
	}
	if len(told) > 0 {
		p.Eventf(corev1.EventTypeNormal, EventMachinesCreated, pass.ActionReconcile, "Created Machines %s", pass.Named(told))
	}
	return err
}
