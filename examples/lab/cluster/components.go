package cluster

import (
	"fmt"
	"os"
	"os/exec"
)

// frontProxy is an unused user name.
const frontProxy = "machinist-front-proxy"

// command is how a component is run. Its environment is nearly empty, because etcd and kwok take options from variables,
// which must not depend on who runs the test.
func (cp *ControlPlane) command(c Component) *exec.Cmd {
	program, args := cp.binaries.ControlPlane, []string{string(c)}
	if c == Kwok {
		program, args = cp.binaries.Kwok, nil
	}
	args = append(args, cp.args(c)...)
	args = append(args, cp.opts.ExtraArgs[c]...)
	cmd := exec.Command(program, args...)
	cmd.Dir = cp.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + cp.dir, "TMPDIR=" + cp.dir, "KWOK_WORKDIR=" + cp.dir}
	return cmd
}

func (cp *ControlPlane) args(c Component) []string {
	switch c {
	case Etcd:
		return cp.etcdArgs()
	case APIServer:
		return cp.apiServerArgs()
	case ControllerManager:
		return append(cp.servingArgs(c, cp.ports.controllerManager), cp.controllerManagerArgs()...)
	case Scheduler:
		return append(cp.servingArgs(c, cp.ports.scheduler), "--config="+cp.path(schedulerFile))
	default:
		return []string{"--kubeconfig=" + cp.kubeconfig(Kwok), "--config=" + cp.path(kwokFile)}
	}
}

// etcdArgs give up durability, because the data are thrown away at the end: without waiting for the disk a write takes a
// tenth of the time. A killed etcd loses nothing by that, since the kernel still has the data.
func (cp *ControlPlane) etcdArgs() []string {
	client, peer := "https://"+hostPort(cp.ports.etcd), "https://"+hostPort(cp.ports.etcdPeer)
	args := []string{
		"--name=machinist",
		"--data-dir=" + cp.path("etcd"),
		"--listen-client-urls=" + client,
		"--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=machinist=" + peer,
		"--unsafe-no-fsync",
		"--quota-backend-bytes=8589934592",
		"--log-level=warn",
	}
	for _, side := range []string{"--", "--peer-"} {
		args = append(args,
			side+"cert-file="+cp.path(serverCertFile),
			side+"key-file="+cp.path(serverKeyFile),
			side+"trusted-ca-file="+cp.path(caFile),
			side+"client-cert-auth",
		)
	}
	return args
}

// apiServerArgs turn the endpoint reconciler off, because the kubernetes Service cannot have a loopback
// address as an endpoint.
func (cp *ControlPlane) apiServerArgs() []string {
	args := []string{
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", cp.ports.apiServer),
		"--tls-cert-file=" + cp.path(serverCertFile),
		"--tls-private-key-file=" + cp.path(serverKeyFile),
		"--client-ca-file=" + cp.path(clientCAFile),
		"--etcd-servers=https://" + hostPort(cp.ports.etcd),
		"--etcd-cafile=" + cp.path(caFile),
		"--etcd-certfile=" + cp.path(etcdCertFile),
		"--etcd-keyfile=" + cp.path(etcdKeyFile),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + cp.path(tokenKeyFile),
		"--service-account-signing-key-file=" + cp.path(tokenKeyFile),
		"--service-cluster-ip-range=" + serviceCIDR,
		"--endpoint-reconciler-type=none",
		// There is no proxy here, but the other components log errors all the time if this is not set. Only this one name
		// may act for others, not every certificate of the authority.
		"--requestheader-client-ca-file=" + cp.path(caFile),
		"--requestheader-allowed-names=" + frontProxy,
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		// Kubelets join with a bootstrap token and have the rights of Nodes, which concern their own Node and its pods.
		"--enable-bootstrap-token-auth",
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--allow-privileged",
	}
	if cp.opts.NoAudit {
		return args
	}
	// The log is written in the request's own goroutine, before the response ends, and never rotated.
	return append(args,
		"--audit-policy-file="+cp.path(auditPolicy),
		"--audit-log-path="+cp.path(auditLog),
		"--audit-log-mode=blocking",
		"--audit-log-maxsize=0",
	)
}

// servingArgs are the flags that the two clients of the API server that serve HTTPS themselves share.
func (cp *ControlPlane) servingArgs(c Component, port int) []string {
	kubeconfig := cp.kubeconfig(c)
	return []string{
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", port),
		"--tls-cert-file=" + cp.path(serverCertFile),
		"--tls-private-key-file=" + cp.path(serverKeyFile),
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
	}
}

// controllerManagerArgs leave all controllers on, add the one that deletes bootstrap tokens, let kubelets have certificates, and raise
// the client's limits, which are the bottleneck of a test with thousands of pods.
func (cp *ControlPlane) controllerManagerArgs() []string {
	return []string{
		"--kubeconfig=" + cp.kubeconfig(ControllerManager),
		"--leader-elect=false",
		"--controllers=*,token-cleaner-controller",
		"--cluster-signing-cert-file=" + cp.path(nodeCAFile),
		"--cluster-signing-key-file=" + cp.path(nodeCAKeyFile),
		"--use-service-account-credentials",
		"--service-account-private-key-file=" + cp.path(tokenKeyFile),
		"--root-ca-file=" + cp.path(caFile),
		"--kube-api-qps=1000",
		"--kube-api-burst=2000",
	}
}
