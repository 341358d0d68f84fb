package fake

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/machinist-dev/machinist/contract"
)

// Infrastructure is an infrastructure provider that fulfils the InfraMachine contract without a cloud: it waits for its
// Machine and for the Machine's data secret name, "creates" a machine, reports it, and then creates the Node. When the
// InfraMachine is deleted, it "deletes" the machine; the Node stays, as with a real cloud. Set it up before the manager
// starts.
type Infrastructure struct {
	ProviderOptions
	// Contract is the contract version. Default v1beta2.
	Contract contract.Version
	// NoNode disables the creation of Nodes.
	NoNode bool
	// NodeDelay is the time between the creation of the machine and of its Node; nil is no delay.
	NodeDelay func(obj *unstructured.Unstructured) time.Duration
	// Node returns the Node to create; nil is Node(name of the InfraMachine, its provider ID).
	Node func(obj *unstructured.Unstructured, providerID string) *corev1.Node
}

// ProviderID returns the provider ID of the machine of an InfraMachine.
func ProviderID(obj *unstructured.Unstructured) string {
	return "fake://" + obj.GetNamespace() + "/" + string(obj.GetUID())
}

// SetupWithManager adds the provider to a manager. The CRD of its kind must be installed.
func (i *Infrastructure) SetupWithManager(mgr ctrl.Manager) error {
	options := i.withDefaults()
	if i.Contract == "" {
		i.Contract = contract.V1Beta2
	}
	p := &provider{gvk: InfraMachineGVK(i.Contract), options: options}
	p.references = func(machine *unstructured.Unstructured) string {
		name, _, _ := unstructured.NestedString(machine.Object, "spec", "infrastructureRef", "name")
		return name
	}
	p.ready = func(_, machine *unstructured.Unstructured) bool {
		name, _, _ := unstructured.NestedString(machine.Object, "spec", "bootstrap", "dataSecretName")
		return name != ""
	}
	p.create = func(ctx context.Context, obj, _ *unstructured.Unstructured) (created, error) {
		return i.create(ctx, p, obj)
	}
	return p.setup(mgr, "fakemachine-"+string(i.Contract))
}

func (i *Infrastructure) create(ctx context.Context, p *provider, obj *unstructured.Unstructured) (created, error) {
	layout, id := contract.InfraMachine(i.Contract), ProviderID(obj)
	reported, _, err := layout.Provisioned.Get(obj.Object)
	if err != nil {
		return created{}, err
	}
	if err := contract.Set(layout.ProviderID, obj.Object, id); err != nil {
		return created{}, err
	}
	if err := contract.Set(layout.Provisioned, obj.Object, true); err != nil {
		return created{}, err
	}
	addresses := []any{
		map[string]any{"type": "Hostname", "address": obj.GetName()},
		map[string]any{"type": "InternalIP", "address": "10.0.0.1"},
	}
	if err := unstructured.SetNestedSlice(obj.Object, addresses, layout.Addresses.Path().Segments()...); err != nil {
		return created{}, err
	}
	if i.NoNode {
		return created{}, nil
	}
	return i.join(ctx, p, obj, reported)
}

// join creates the Node once: a Node that is deleted later is not created again. A Node without a delay joins when the finalizer and the
// provider ID are stored, and before the machine is reported: otherwise, an InfraMachine that is deleted meanwhile would leave a Node
// that its Machine never knew.
func (i *Infrastructure) join(ctx context.Context, p *provider, obj *unstructured.Unstructured, reported bool) (created, error) {
	_, joined := obj.GetAnnotations()[joinedAnnotation]
	if wait := i.untilJoin(p, obj, reported); wait > 0 {
		return created{again: wait}, nil
	}
	if reported && joined {
		return created{}, nil
	}
	WithAnnotations(map[string]string{joinedAnnotation: "true"})(obj)
	if reported {
		return created{}, i.register(ctx, p, obj)
	}
	return created{join: func(ctx context.Context) error { return i.register(ctx, p, obj) }}, nil
}

func (i *Infrastructure) register(ctx context.Context, p *provider, obj *unstructured.Unstructured) error {
	node := Node(obj.GetName(), ProviderID(obj))
	if i.Node != nil {
		node = i.Node(obj, ProviderID(obj))
	}
	if err := p.client.Create(ctx, node); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}

func (i *Infrastructure) untilJoin(p *provider, obj *unstructured.Unstructured, reported bool) time.Duration {
	if i.NodeDelay == nil {
		return 0
	}
	if !reported {
		p.mu.Lock()
		p.since[joinKey(obj)] = p.options.Clock.Now()
		p.mu.Unlock()
		return i.NodeDelay(obj)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.since[joinKey(obj)].Add(i.NodeDelay(obj)).Sub(p.options.Clock.Now())
}

func joinKey(obj *unstructured.Unstructured) types.UID { return obj.GetUID() + "/node" }

const joinedAnnotation = "fake.machinist.dev/node-joined"
