package capi

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	certutil "k8s.io/client-go/util/cert"

	"github.com/machinist-dev/machinist/examples/lab/bench"
)

// UserAgent is the start of the manager's user agents in the audit log.
const UserAgent = managerProgram + "/"

// ManagerOptions configures how the manager runs.
type ManagerOptions struct {
	// Program is the result of BuildManager.
	Program string
	// Kubeconfig is for the cluster of the Machines.
	Kubeconfig string
	// Dir is where the manager's own directory for its certificate and its log is created.
	Dir string
	// Flags are added to the flags that it needs here. Without them it has its default client limits.
	Flags []string
}

// Unlimited are the flags that disable the client limits.
func Unlimited() []string { return []string{"--kube-api-qps=-1", "--clustercache-client-qps=-1"} }

// StartManager starts the manager without its webhooks and without conversion of CRDs, which it does not need here. It
// returns before the manager is ready.
func StartManager(o ManagerOptions) (*bench.Process, error) {
	dir, err := os.MkdirTemp(o.Dir, managerProgram+"-")
	if err != nil {
		return nil, err
	}
	port, err := bench.FreePort()
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
		"POD_NAMESPACE=" + metav1.NamespaceDefault, "POD_NAME=" + managerProgram, "POD_UID=" + managerProgram}
	return bench.StartProcess("Cluster API's manager", filepath.Join(dir, "log"), env, o.Program, flags...)
}
