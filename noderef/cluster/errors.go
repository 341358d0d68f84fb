package cluster

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

var (
	// ErrNotConnected is matched by every error that says that a cluster cannot be used now. It says nothing about the
	// objects in the cluster: an object that cannot be read is not absent.
	ErrNotConnected = errors.New("cluster is not connected")
	// ErrNotSynced is matched by a cached read before the first lists of the cache are complete.
	ErrNotSynced = errors.New("the first lists of the cluster are not complete")
	// ErrNoKubeconfig is matched when nothing tells how to reach a cluster. An [Access] returns it, wrapped.
	ErrNoKubeconfig = errors.New("no kubeconfig")
	// errInvalidKubeconfig is matched when a kubeconfig cannot be parsed, or has no usable server.
	errInvalidKubeconfig = errors.New("invalid kubeconfig")
	// ErrUnsafeKubeconfig is matched when a kubeconfig would make this process run a command, load an auth plugin or
	// read a file.
	ErrUnsafeKubeconfig = errors.New("unsafe kubeconfig")
	// errUnauthorized is matched when the API server does not accept the credentials.
	errUnauthorized = errors.New("the API server refuses the credentials")
	// errSetup is matched by an error between the first answer of the server and the end of Setup.
	errSetup = errors.New("the connection cannot be set up")

	errClosed = fmt.Errorf("%w: the connection was closed", ErrNotConnected)
)

// Reason says in one word why a cluster is not connected. It can be the reason of a condition.
type Reason string

// The reasons.
const (
	// ReasonNone is the zero value: the cluster is connected.
	ReasonNone Reason = ""
	// ReasonConnecting means that the first attempt is not finished.
	ReasonConnecting Reason = "Connecting"
	// ReasonNoKubeconfig means that nothing tells how to reach the cluster.
	ReasonNoKubeconfig Reason = "KubeconfigNotFound"
	// ReasonKubeconfigUnread means that the kubeconfig could not be read: it may exist.
	ReasonKubeconfigUnread Reason = "KubeconfigUnread"
	// ReasonKubeconfigRefused means that the kubeconfig is invalid or unsafe.
	ReasonKubeconfigRefused Reason = "KubeconfigRefused"
	// ReasonUnreachable means that the API server does not answer, or says that it is not ready.
	ReasonUnreachable Reason = "Unreachable"
	// ReasonUnauthorized means that the API server does not accept the credentials.
	ReasonUnauthorized Reason = "Unauthorized"
	// ReasonSetupFailed means that the API server answers, but Options.Setup failed.
	ReasonSetupFailed Reason = "SetupFailed"
	// ReasonStopped means that the context of the Clusters has ended.
	ReasonStopped Reason = "Stopped"
)

// advice returns what a person can do about a reason; empty if the error itself tells.
func (r Reason) advice() string {
	switch r {
	case ReasonUnreachable:
		return "check the API server, the address in the kubeconfig and the network in between"
	case ReasonUnauthorized:
		return "renew the credentials in the kubeconfig"
	case ReasonKubeconfigUnread:
		return "check that this controller may get the kubeconfig Secret"
	default:
		return ""
	}
}

// NotConnectedError tells why a cluster cannot be used now. It matches [ErrNotConnected] and what Err matches. Its text
// is stable while the state of the cluster is, so that it can be the message of a condition. It is shared and must not
// be changed.
type NotConnectedError struct {
	// Cluster is the namespace and the name of the cluster.
	Cluster types.NamespacedName
	Reason  Reason
	// Err is the cause; nil while the first attempt is not finished.
	Err error
	// LastSeen is the time of the API server's last sign of life; zero if there was none since the cluster was first
	// used.
	LastSeen time.Time
}

// Error says what is wrong, since when, and what a person can do about it.
func (e *NotConnectedError) Error() string {
	text := fmt.Sprintf("cluster %s is not connected", e.Cluster)
	switch {
	case e.Err != nil:
		text += ": " + e.Err.Error()
	case e.Reason == ReasonConnecting:
		text += " yet: connecting in the background"
	case e.Reason == ReasonStopped:
		text += ": the controller is shutting down"
	}
	if !e.LastSeen.IsZero() {
		text += "; last seen " + e.LastSeen.UTC().Format(time.RFC3339)
	}
	if advice := e.Reason.advice(); advice != "" {
		text += "; " + advice
	}
	return text
}

// Is matches ErrNotConnected.
func (e *NotConnectedError) Is(target error) bool { return target == ErrNotConnected }

// Unwrap returns Err.
func (e *NotConnectedError) Unwrap() error { return e.Err }
