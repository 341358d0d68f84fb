package cluster

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
)

// KubeconfigKey is the key of the kubeconfig in the data of Cluster API's kubeconfig Secrets (contract of control plane providers).
const KubeconfigKey = "value"

// SecretLayout is the format of the kubeconfig Secrets, which are in the namespaces of their clusters. Empty fields default to the format
// of Cluster API.
type SecretLayout struct {
	// Prefix and Suffix surround the name of the cluster in the name of the Secret. If both are empty, the Suffix is -kubeconfig.
	Prefix, Suffix string
	// Key is the key of the kubeconfig in the Secret's data; default [KubeconfigKey].
	Key string
	// Label is a label key of the Secrets: changes of Secrets without it are ignored. Default [contract.ClusterNameLabel].
	Label string
}

func (l SecretLayout) complete() SecretLayout {
	if l.Prefix == "" && l.Suffix == "" {
		l.Suffix = "-kubeconfig"
	}
	l.Key, l.Label = cmp.Or(l.Key, KubeconfigKey), cmp.Or(l.Label, contract.ClusterNameLabel)
	return l
}

// Secrets is an [Access] that reads kubeconfig Secrets. It watches metadata only. It reads the Secret when a connection is created, and
// does not retain it. It ignores the Secret's type, as Cluster API does. It is safe for concurrent use.
type Secrets struct {
	layout    SecretLayout
	informers cache.Informers // of the metadata of Secrets
	reader    client.Reader   // without a cache, so that no kubeconfig stays in memory
}

var (
	_ Access   = (*Secrets)(nil)
	_ notifier = (*Secrets)(nil)
)

// SecretsFromManager returns an Access that reads Cluster API's kubeconfig Secrets. See [SecretLayout.FromManager].
func SecretsFromManager(mgr ctrl.Manager, namespaces ...string) (*Secrets, error) {
	return SecretLayout{}.FromManager(mgr, namespaces...)
}

// FromManager returns an Access that reads Secrets of the manager's cluster. It adds a cache to the manager with only the metadata of the
// Secrets with the label, in the given namespaces or, if there are none, in all. It needs permission to get, list and watch Secrets there.
func (l SecretLayout) FromManager(mgr ctrl.Manager, namespaces ...string) (*Secrets, error) {
	l = l.complete()
	labelled, err := labels.Parse(l.Label)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig secrets: label: %w", err)
	}
	only := map[string]cache.Config{} // none means all
	for _, namespace := range namespaces {
		only[namespace] = cache.Config{}
	}
	metadata, err := cache.New(mgr.GetConfig(), cache.Options{
		DefaultNamespaces:    only,
		HTTPClient:           mgr.GetHTTPClient(),
		Scheme:               mgr.GetScheme(),
		Mapper:               mgr.GetRESTMapper(),
		DefaultLabelSelector: labelled,
		DefaultTransform:     cache.TransformStripManagedFields(),
	})
	if err != nil {
		return nil, fmt.Errorf("kubeconfig secrets: cache of their metadata: %w", err)
	}
	if err := mgr.Add(metadata); err != nil {
		return nil, fmt.Errorf("kubeconfig secrets: adding their cache to the manager: %w", err)
	}
	return &Secrets{layout: l, informers: metadata, reader: mgr.GetAPIReader()}, nil
}

// Target implements [Access] with one read of the Secret.
func (s *Secrets) Target(ctx context.Context, cluster types.NamespacedName) (Target, error) {
	key := types.NamespacedName{Namespace: cluster.Namespace, Name: s.layout.Prefix + cluster.Name + s.layout.Suffix}
	var secret corev1.Secret
	err := s.reader.Get(ctx, key, &secret)
	switch {
	case apierrors.IsNotFound(err):
		return Target{}, fmt.Errorf(
			"%w: Secret %s does not exist; its control plane provider creates it, or you do, with label %s=%s and data key %s",
			ErrNoKubeconfig, key, s.layout.Label, cluster.Name, s.layout.Key)
	case err != nil:
		return Target{}, fmt.Errorf("reading Secret %s: %w", key, err)
	}
	kubeconfig, found := secret.Data[s.layout.Key]
	if !found {
		return Target{}, fmt.Errorf("%w: Secret %s has no data key %q", errInvalidKubeconfig, key, s.layout.Key)
	}
	config, err := ParseKubeconfig(kubeconfig)
	if err != nil {
		return Target{}, fmt.Errorf("Secret %s: %w", key, err) //nolint:staticcheck // begins with a kind
	}
	// The hash, not the resourceVersion: a new label does not change the kubeconfig. The hash never leaves this
	// process.
	sum := sha256.Sum256(kubeconfig)
	return Target{Config: config, Version: hex.EncodeToString(sum[:])}, nil
}

// notify implements notifier with a handler on the metadata informer of Secrets.
func (s *Secrets) notify(ctx context.Context, changed func(cluster types.NamespacedName)) error {
	kind := &metav1.PartialObjectMetadata{}
	kind.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	informer, err := s.informers.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("kubeconfig secrets: metadata informer: %w", err)
	}
	tell := func(obj any) {
		if cluster, ok := s.layout.clusterOf(obj); ok {
			changed(cluster)
		}
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: tell, UpdateFunc: func(_, now any) { tell(now) }, DeleteFunc: tell,
	})
	if err != nil {
		return fmt.Errorf("kubeconfig secrets: handler: %w", err)
	}
	context.AfterFunc(ctx, func() { _ = informer.RemoveEventHandler(registration) })
	return nil
}

// clusterOf returns the cluster of a Secret, by the Secret's name.
func (l SecretLayout) clusterOf(obj any) (types.NamespacedName, bool) {
	key, err := toolscache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return types.NamespacedName{}, false
	}
	namespace, secret, _ := strings.Cut(key, "/")
	name, begins := strings.CutPrefix(secret, l.Prefix)
	name, ends := strings.CutSuffix(name, l.Suffix)
	return types.NamespacedName{Namespace: namespace, Name: name}, begins && ends && name != ""
}
