package cluster

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

var (
	// ErrNotConnected matches every error of a cluster that cannot be used now. It implies nothing about the objects in the cluster: an object
	// that cannot be read is not absent.
	ErrNotConnected = errors.New("cluster is not connected")
	// ErrNotSynced matches the error of a cached read before the first lists of the cache are complete.
	ErrNotSynced = errors.New("the first lists of the cluster are not complete")
	// ErrNoKubeconfig matches when there is no kubeconfig for a cluster. An [Access] returns it, wrapped.
	ErrNoKubeconfig = errors.New("no kubeconfig")
	// errInvalidKubeconfig matches when a kubeconfig cannot be parsed, or has no usable server.
	errInvalidKubeconfig = errors.New("invalid kubeconfig")
	// ErrUnsafeKubeconfig matches when a kubeconfig would make this process run a command, load an auth plugin or read a file.
	ErrUnsafeKubeconfig = errors.New("unsafe kubeconfig")
	// errUnauthorized matches when the API server rejects the credentials.
	errUnauthorized = errors.New("the API server refuses the credentials")
	// errSetup matches an error between the first response of the server and the end of Setup.
	errSetup = errors.New("the connection cannot be set up")

	errClosed = fmt.Errorf("%w: the connection was closed", ErrNotConnected)
)

// Reason is why a cluster is not connected; empty when it is. It can be the reason of a condition.
type Reason string

// Values of Reason.
const (
	// ReasonConnecting means that the first attempt is not finished.
	ReasonConnecting Reason = "Connecting"
	// ReasonNoKubeconfig means that there is no kubeconfig for the cluster.
	ReasonNoKubeconfig Reason = "KubeconfigNotFound"
	// ReasonKubeconfigUnread means that the kubeconfig could not be read: it may exist.
	ReasonKubeconfigUnread Reason = "KubeconfigUnread"
	// ReasonKubeconfigRefused means that the kubeconfig is invalid or unsafe.
	ReasonKubeconfigRefused Reason = "KubeconfigRefused"
	// ReasonUnreachable means that the API server does not answer, or reports that it is not ready.
	ReasonUnreachable Reason = "Unreachable"
	// ReasonUnauthorized means that the API server rejects the credentials.
	ReasonUnauthorized Reason = "Unauthorized"
	// ReasonSetupFailed means that the API server answers, but Options.Setup failed.
	ReasonSetupFailed Reason = "SetupFailed"
	// ReasonStopped means that the context of the Clusters has ended.
	ReasonStopped Reason = "Stopped"
)

// advice returns the remedy for a reason; empty if the error itself has it.
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

// NotConnectedError is why a cluster cannot be used now. It matches [ErrNotConnected] and everything that Err matches. Its text is stable
// while the state of the cluster is, so that it can be the message of a condition. It is shared and must not be changed.
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

// Error returns the problem, the time since when it exists, and the remedy.
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
