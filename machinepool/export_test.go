package machinepool

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// PageExamples are the two examples of Cluster API's page on the MachinePool controller, as they stand there.
func PageExamples(t *testing.T) (bootstrap, infrastructure *unstructured.Unstructured) {
	t.Helper()
	return parse(t, pageBootstrap), parse(t, pageInfrastructure)
}
