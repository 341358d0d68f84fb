package cluster

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/internal/apitest/published"
)

// ClusterAPIVersion is the release of Cluster API whose CRDs ClusterAPICRDs returns.
const ClusterAPIVersion = published.ClusterAPIVersion

// ErrNoCRD is matched when Cluster API has no CRD of a kind that was asked for, or not in that version.
var ErrNoCRD = published.ErrNoCRD

// ClusterAPICRDs returns Cluster API's own CRDs of these kinds, such as "Cluster" and "Machine", in this order, all
// of its core kinds when none are named. The go command downloads them as a module, into its cache. Each keeps only
// one API version, such as "v1beta2", which becomes the stored one, and no conversion webhook, since nothing here
// would answer it. Everything else is as Cluster API ships it.
func ClusterAPICRDs(ctx context.Context, version string, kinds ...string) ([]*unstructured.Unstructured, error) {
	return published.ClusterAPICRDs(ctx, version, kinds...)
}

// ModuleCRDs returns the CRDs in files of a Go module, such as "config/crd/*.yaml" of "example.com/module@v1.2.3", by kind and as they are.
// The go command downloads the module into its cache.
func ModuleCRDs(ctx context.Context, module, pattern string) (map[string]*unstructured.Unstructured, error) {
	return published.CRDs(ctx, module, pattern)
}
