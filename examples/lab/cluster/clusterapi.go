package cluster

import (
	"context"

	"github.com/machinist-dev/machinist/internal/apitest/published"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ClusterAPIVersion is the release of Cluster API whose CRDs ClusterAPICRDs returns.
const ClusterAPIVersion = published.ClusterAPIVersion

// ClusterAPICRDs returns Cluster API's own CRDs of these kinds, such as "Cluster" and "Machine", in this order, all
// of its core kinds when none are named. The go command downloads them as a module, into its cache. Each keeps only
// one API version, such as "v1beta2", which becomes the stored one, and no conversion webhook, since nothing here
// would answer it. Everything else is as Cluster API ships it.
func ClusterAPICRDs(ctx context.Context, version string, kinds ...string) ([]*unstructured.Unstructured, error) {
	return published.ClusterAPICRDs(ctx, version, kinds...)
}
