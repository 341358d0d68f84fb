package fake

import (
	"cmp"
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
)

// Infrastructure is an infrastructure provider that fulfils the InfraMachine contract without a cloud: it waits for its Machine and for the
// Machine's data secret name, "creates" a machine, reports it, and then creates the Node. When the InfraMachine is deleted, it "deletes"
// the machine; the Node remains, as with a real cloud. Set it up before the manager starts.
type Infrastructure struct {
	ProviderOptions
	// Contract is the contract version. Default v1beta2.
	Contract contract.Version
	// NoNode disables the creation of Nodes.
	NoNode bool
	// NodeDelay is the time between the creation of the machine and of its Node; nil means no delay.
	NodeDelay func(obj *unstructured.Unstructured) time.Duration
	// Node returns the Node to create; nil means Node(name of the InfraMachine, its provider ID).
	Node func(obj *unstructured.Unstructured, providerID string) *corev1.Node
}

// ProviderID returns the provider ID of the machine of an InfraMachine.
func ProviderID(obj *unstructured.Unstructured) string {
	return "fake://" + obj.GetNamespace() + "/" + string(obj.GetUID())
}

// SetupWithManager adds the provider to a manager. The CRD of its kind must be installed.
func (i *Infrastructure) SetupWithManager(mgr ctrl.Manager) error {
	i.Contract = cmp.Or(i.Contract, contract.V1Beta2)
	p := &provider{
		ProviderOptions: i.ProviderOptions, gvk: InfraMachineGVK(i.Contract), reference: []string{"spec", "infrastructureRef", "name"},
		ready: func(machine *unstructured.Unstructured) bool {
			name, _, _ := unstructured.NestedString(machine.Object, "spec", "bootstrap", "dataSecretName")
			return name != ""
		},
	}
	p.create = func(ctx context.Context, e *edit, _ *unstructured.Unstructured) (time.Duration, error) {
		return i.create(ctx, p, e)
	}
	return p.setup(mgr)
}

func (i *Infrastructure) create(ctx context.Context, p *provider, e *edit) (again time.Duration, err error) {
	layout := contract.LayoutsOf(i.Contract).InfraMachine
	if err := contract.Set(layout.ProviderID, e.Object, ProviderID(e.Unstructured)); err != nil {
		return 0, err
	}
	if !i.NoNode {
		if again, err = i.join(ctx, p, e); err != nil {
			return 0, err
		}
	}
	addresses := []any{
		map[string]any{"type": "Hostname", "address": e.GetName()}, map[string]any{"type": "InternalIP", "address": "10.0.0.1"},
	}
	return again, errors.Join(contract.Set(layout.Provisioned, e.Object, true), setReady(e.Unstructured),
		unstructured.SetNestedSlice(e.Object, addresses, layout.Addresses.Path().Segments()...))
}

const joinedAnnotation = "fake.machinist.dev/node-joined"

// join creates the Node once: a Node that is deleted later is not created again. Without a delay, the Node joins after the finalizer and
// the provider ID are stored, and before the machine is reported: otherwise an InfraMachine that is deleted in between would leave a Node
// that its Machine never recorded.
func (i *Infrastructure) join(ctx context.Context, p *provider, e *edit) (again time.Duration, err error) {
	reported, _, err := contract.LayoutsOf(i.Contract).InfraMachine.Provisioned.Get(e.Object)
	if _, joined := e.GetAnnotations()[joinedAnnotation]; err != nil || reported && joined {
		return 0, err
	}
	if again = p.wait(e, "join", i.NodeDelay); again > 0 {
		return again, nil
	}
	WithAnnotations(map[string]string{joinedAnnotation: "true"})(e.Unstructured)
	if !reported {
		if err := e.save(ctx); err != nil || e.GetDeletionTimestamp() != nil {
			return 0, err
		}
	}
	node := Node(e.GetName(), ProviderID(e.Unstructured))
	if i.Node != nil {
		node = i.Node(e.Unstructured, ProviderID(e.Unstructured))
	}
	return 0, client.IgnoreAlreadyExists(p.client.Create(ctx, node))
}
