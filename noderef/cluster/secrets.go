package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
)

// Format of Cluster API's kubeconfig Secrets (contract of control plane providers).
const (
	// LabelClusterName is the label that a Secret must have to be in the cache of [SecretsFromManager]; its value is
	// the name of the cluster.
	LabelClusterName = contract.ClusterNameLabel
	// KubeconfigKey is the key of the Secret's data.
	KubeconfigKey = "value"

	kubeconfigSuffix = "-kubeconfig"
)

// Secrets is an [Access] that reads Cluster API's kubeconfig Secrets: in the namespace of the cluster, with the name
// `<name>-kubeconfig` and the key `value`. It watches metadata only. It reads the Secret when a connection is created,
// and does not keep it. It ignores the Secret's type, as Cluster API does. It is safe for concurrent use.
type Secrets struct {
	informers cache.Informers
	reader    client.Reader
}

var (
	_ Access   = (*Secrets)(nil)
	_ notifier = (*Secrets)(nil)
)

// newSecrets returns an Access that reads Secrets. informers is the cache for the metadata of Secrets, ideally one that
// has only Secrets with [LabelClusterName]. reader reads single Secrets; use one without a cache, such as
// manager.GetAPIReader(), so that no kubeconfig stays in memory. newSecrets makes no request.
func newSecrets(informers cache.Informers, reader client.Reader) (*Secrets, error) {
	if informers == nil || reader == nil {
		return nil, errors.New("new kubeconfig secrets: informers and reader are required")
	}
	return &Secrets{informers: informers, reader: reader}, nil
}

// SecretsFromManager returns an Access that reads Secrets of the manager's cluster. It adds a cache to the manager that
// holds only the names and UIDs of the Secrets with [LabelClusterName], of some namespaces or, without any, of all. It
// needs the rights to get, list and watch Secrets there.
func SecretsFromManager(mgr ctrl.Manager, namespaces ...string) (*Secrets, error) {
	labelled, err := labels.NewRequirement(LabelClusterName, selection.Exists, nil)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig secrets: %w", err)
	}
	var only map[string]cache.Config // nil: all
	for _, namespace := range namespaces {
		if only == nil {
			only = map[string]cache.Config{}
		}
		only[namespace] = cache.Config{}
	}
	metadata, err := cache.New(mgr.GetConfig(), cache.Options{
		DefaultNamespaces:    only,
		HTTPClient:           mgr.GetHTTPClient(),
		Scheme:               mgr.GetScheme(),
		Mapper:               mgr.GetRESTMapper(),
		DefaultLabelSelector: labels.NewSelector().Add(*labelled),
		DefaultTransform:     identityOnly,
	})
	if err != nil {
		return nil, fmt.Errorf("kubeconfig secrets: cache of their metadata: %w", err)
	}
	if err := mgr.Add(metadata); err != nil {
		return nil, fmt.Errorf("kubeconfig secrets: adding their cache to the manager: %w", err)
	}
	return newSecrets(metadata, mgr.GetAPIReader())
}

// identityOnly drops the unused metadata of a Secret, because there is one bootstrap Secret per Machine.
func identityOnly(obj any) (any, error) {
	if secret, ok := obj.(*metav1.PartialObjectMetadata); ok {
		secret.ObjectMeta = metav1.ObjectMeta{
			Namespace: secret.Namespace, Name: secret.Name, UID: secret.UID, ResourceVersion: secret.ResourceVersion,
		}
	}
	return obj, nil
}

// Target implements [Access] with one read of the Secret.
func (s *Secrets) Target(ctx context.Context, cluster types.NamespacedName) (Target, error) {
	key := types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name + kubeconfigSuffix}
	var secret corev1.Secret
	err := s.reader.Get(ctx, key, &secret)
	switch {
	case apierrors.IsNotFound(err):
		return Target{}, fmt.Errorf(
			"%w: Secret %s does not exist; its control plane provider creates it, or you do, with label %s=%s and data key %s",
			ErrNoKubeconfig, key, LabelClusterName, cluster.Name, KubeconfigKey)
	case err != nil:
		return Target{}, fmt.Errorf("reading Secret %s: %w", key, err)
	}
	kubeconfig, found := secret.Data[KubeconfigKey]
	if !found {
		return Target{}, fmt.Errorf("%w: Secret %s has no data key %q", errInvalidKubeconfig, key, KubeconfigKey)
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
		if cluster, ok := clusterOf(obj); ok {
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
func clusterOf(obj any) (types.NamespacedName, bool) {
	key, err := toolscache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return types.NamespacedName{}, false
	}
	namespace, secret, _ := strings.Cut(key, "/")
	name, ok := strings.CutSuffix(secret, kubeconfigSuffix)
	return types.NamespacedName{Namespace: namespace, Name: name}, ok && name != ""
}
