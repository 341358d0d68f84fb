package arm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	certutil "k8s.io/client-go/util/cert"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
	"github.com/machinist-dev/machinist/examples/lab/measure"
)

// CAPIAgent is the start of the user agents of Cluster API's manager in the audit log.
const CAPIAgent = capiProgram + "/"

// StartCAPI starts Cluster API's manager, a program of BuildCAPI, without its webhooks and without conversion of CRDs, which it does not
// need here. It returns before the manager is ready. flags are added to those that it needs here; without them it has its default client
// limits.
func StartCAPI(program string, plane *cluster.ControlPlane, flags ...string) (*measure.Process, error) {
	dir, err := os.MkdirTemp(plane.Dir(), capiProgram+"-")
	if err != nil {
		return nil, err
	}
	port, err := measure.FreePort()
	if err != nil {
		return nil, err
	}
	cert, key, err := certutil.GenerateSelfSignedCertKey("localhost", nil, nil)
	if err != nil {
		return nil, err
	}
	err = errors.Join(
		os.WriteFile(filepath.Join(dir, "tls.crt"), cert, 0o600),
		os.WriteFile(filepath.Join(dir, "tls.key"), key, 0o600),
	)
	if err != nil {
		return nil, err
	}
	all := append([]string{ // the last value of a repeated flag counts
		"--webhook-cert-dir=" + dir, fmt.Sprintf("--webhook-port=%d", port), "--health-addr=0",
		"--insecure-diagnostics", "--diagnostics-address=127.0.0.1:0",
		"--skip-crd-migration-phases=StorageVersionMigration,CleanupManagedFields",
	}, flags...)
	env := []string{"KUBECONFIG=" + plane.Kubeconfig(),
		"POD_NAMESPACE=" + metav1.NamespaceDefault, "POD_NAME=" + capiProgram, "POD_UID=" + capiProgram}
	return measure.StartProcess("Cluster API's manager", filepath.Join(dir, "log"), env, program, all...)
}
