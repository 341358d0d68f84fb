package fake

import (
	"cmp"
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
)

// Bootstrap is a bootstrap provider that fulfils the BootstrapConfig contract: it writes a Secret with the key `value`, owned by the
// BootstrapConfig and labeled with the cluster, and sets its name in the BootstrapConfig. Set it up before the manager starts.
type Bootstrap struct {
	ProviderOptions
	// Contract is the contract version. Default v1beta2.
	Contract contract.Version
	// Data returns the content of the Secret; nil means an empty cloud-config.
	Data func(obj *unstructured.Unstructured) []byte
}

// SetupWithManager adds the provider to a manager. The CRD of its kind must be installed.
func (b *Bootstrap) SetupWithManager(mgr ctrl.Manager) error {
	b.Contract = cmp.Or(b.Contract, contract.V1Beta2)
	p := &provider{
		ProviderOptions: b.ProviderOptions, gvk: BootstrapConfigGVK(b.Contract), reference: []string{"spec", "bootstrap", "configRef", "name"},
		ready: func(*unstructured.Unstructured) bool { return true }, create: b.create,
	}
	return p.setup(mgr)
}

func (b *Bootstrap) create(ctx context.Context, e *edit, machine *unstructured.Unstructured) (time.Duration, error) {
	layout := contract.LayoutsOf(b.Contract).BootstrapConfig
	if created, _, err := layout.DataSecretCreated.Get(e.Object); err != nil || created {
		return 0, err
	}
	data := []byte("#cloud-config\n")
	if b.Data != nil {
		data = b.Data(e.Unstructured)
	}
	cluster, _, _ := unstructured.NestedString(machine.Object, "spec", "clusterName")
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: e.GetNamespace(), Name: e.GetName(), Labels: map[string]string{contract.ClusterNameLabel: cluster},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: e.GetAPIVersion(), Kind: e.GetKind(), Name: e.GetName(), UID: e.GetUID(), Controller: new(true),
			}},
		},
		Type: "cluster.x-k8s.io/secret",
		Data: map[string][]byte{"value": data},
	}
	if err := client.IgnoreAlreadyExists(e.client.Create(ctx, secret)); err != nil {
		return 0, err
	}
	return 0, errors.Join(contract.Set(layout.DataSecretName, e.Object, secret.Name), contract.Set(layout.DataSecretCreated, e.Object, true),
		setReady(e.Unstructured))
}
