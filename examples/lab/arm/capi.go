package arm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	certutil "k8s.io/client-go/util/cert"

	"github.com/machinist-dev/machinist/examples/lab/measure"
)

// CAPIAgent is the start of the user agents of Cluster API's manager in the audit log.
const CAPIAgent = capiProgram + "/"

// CAPIOptions configures how Cluster API's manager runs.
type CAPIOptions struct {
	// Program is the result of BuildCAPI.
	Program string
	// Kubeconfig is for the cluster of the Machines.
	Kubeconfig string
	// Dir is where the manager's own directory for its certificate and its log is created.
	Dir string
	// Flags are added to the flags that it needs here. Without them it has its default client limits.
	Flags []string
}

// StartCAPI starts Cluster API's manager without its webhooks and without conversion of CRDs, which it does not need here. It
// returns before the manager is ready.
func StartCAPI(o CAPIOptions) (*measure.Process, error) {
	dir, err := os.MkdirTemp(o.Dir, capiProgram+"-")
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
	flags := append([]string{ // the last value of a repeated flag counts
		"--webhook-cert-dir=" + dir, fmt.Sprintf("--webhook-port=%d", port), "--health-addr=0",
		"--insecure-diagnostics", "--diagnostics-address=127.0.0.1:0",
		"--skip-crd-migration-phases=StorageVersionMigration,CleanupManagedFields",
	}, o.Flags...)
	env := []string{"KUBECONFIG=" + o.Kubeconfig,
		"POD_NAMESPACE=" + metav1.NamespaceDefault, "POD_NAME=" + capiProgram, "POD_UID=" + capiProgram}
	return measure.StartProcess("Cluster API's manager", filepath.Join(dir, "log"), env, o.Program, flags...)
}
