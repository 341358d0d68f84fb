package capi

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	certutil "k8s.io/client-go/util/cert"

	"github.com/machinist-dev/machinist/examples/controlplane/bench"
)

// UserAgent is the beginning of the manager's user agents, by which the audit log knows it.
const UserAgent = managerProgram + "/"

// ManagerOptions say how the manager runs.
type ManagerOptions struct {
	// Program is what BuildManager returned.
	Program string
	// Kubeconfig leads to the cluster of the Machines.
	Kubeconfig string
	// Dir is where the manager gets a directory of its own for its certificate and its log.
	Dir string
	// Flags are added to those that it cannot run without here. Its own client limits hold unless they say otherwise.
	Flags []string
}

// Unlimited are the flags that take the client limits away.
func Unlimited() []string { return []string{"--kube-api-qps=-1", "--clustercache-client-qps=-1"} }

// StartManager starts the manager without anything that it could not have here: nobody calls its webhooks, and no CRD has an
// old version. It returns before the manager is ready.
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
	flags := append([]string{ // a flag that is given twice has its last value
		"--webhook-cert-dir=" + dir, fmt.Sprintf("--webhook-port=%d", port), "--health-addr=0",
		"--insecure-diagnostics", "--diagnostics-address=127.0.0.1:0",
		"--skip-crd-migration-phases=StorageVersionMigration,CleanupManagedFields",
	}, o.Flags...)
	env := []string{"KUBECONFIG=" + o.Kubeconfig,
		"POD_NAMESPACE=" + metav1.NamespaceDefault, "POD_NAME=" + managerProgram, "POD_UID=" + managerProgram}
	return bench.StartProcess("Cluster API's manager", filepath.Join(dir, "log"), env, o.Program, flags...)
}
