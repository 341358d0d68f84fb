package fake

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/machinist-dev/machinist/contract"
)

// Bootstrap is a bootstrap provider that fulfils the BootstrapConfig contract: it writes a Secret with the key `value`,
// owned by the BootstrapConfig and labelled with the cluster, and names it. Set it up before the manager starts.
type Bootstrap struct {
	ProviderOptions
	// Contract is the contract version. Default v1beta2.
	Contract contract.Version
	// Data returns the content of the Secret; nil is an empty cloud-config.
	Data func(obj *unstructured.Unstructured) []byte
}

// SetupWithManager adds the provider to a manager. The CRD of its kind must be installed.
func (b *Bootstrap) SetupWithManager(mgr ctrl.Manager) error {
	options := b.withDefaults()
	if b.Contract == "" {
		b.Contract = contract.V1Beta2
	}
	p := &provider{gvk: BootstrapConfigGVK(b.Contract), options: options}
	p.references = func(machine *unstructured.Unstructured) string {
		name, _, _ := unstructured.NestedString(machine.Object, "spec", "bootstrap", "configRef", "name")
		return name
	}
	p.ready = func(_, _ *unstructured.Unstructured) bool { return true }
	p.create = func(ctx context.Context, obj, machine *unstructured.Unstructured) (created, error) {
		return created{}, b.create(ctx, p, obj, machine)
	}
	return p.setup(mgr, "fakeconfig-"+string(b.Contract))
}

func (b *Bootstrap) create(ctx context.Context, p *provider, obj, machine *unstructured.Unstructured) error {
	layout := contract.BootstrapConfig(b.Contract)
	if created, _, err := layout.DataSecretCreated.Get(obj.Object); err != nil || created {
		return err
	}
	data := []byte("#cloud-config\n")
	if b.Data != nil {
		data = b.Data(obj)
	}
	cluster, _, _ := unstructured.NestedString(machine.Object, "spec", "clusterName")
	version, kind := p.gvk.ToAPIVersionAndKind()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: obj.GetNamespace(), Name: obj.GetName(),
			Labels: map[string]string{contract.ClusterNameLabel: cluster},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: version, Kind: kind, Name: obj.GetName(), UID: obj.GetUID(), Controller: new(true),
			}},
		},
		Type: "cluster.x-k8s.io/secret",
		Data: map[string][]byte{"value": data},
	}
	if err := p.client.Create(ctx, secret); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	if err := contract.Set(layout.DataSecretName, obj.Object, secret.Name); err != nil {
		return err
	}
	return contract.Set(layout.DataSecretCreated, obj.Object, true)
}
