package cluster

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Component names one of the programs of a control plane. The value is the program's own name.
type Component string

// The components, in the order in which they are started.
const (
	Etcd              Component = "etcd"
	APIServer         Component = "kube-apiserver"
	ControllerManager Component = "kube-controller-manager"
	Scheduler         Component = "kube-scheduler"
	Kwok              Component = "kwok"
)

// String returns the program's name.
func (c Component) String() string { return string(c) }

// Components returns all components in the order in which they are started.
func Components() []Component {
	return []Component{Etcd, APIServer, ControllerManager, Scheduler, Kwok}
}

// ErrUnknownComponent is matched by the errors about a component that does not exist or was left out.
var ErrUnknownComponent = errors.New("no such component in this control plane")

// Options are the settings of Start. The zero value is a complete control plane that logs nothing, keeps
// an audit log, and lets a deleted pod go at once.
type Options struct {
	// Dir is the directory in which the control plane makes one of its own for keys, data and logs. Empty
	// means the system's directory for temporary files.
	Dir string
	// KeepDir leaves that directory in place at the end, for a look at the logs. Then it also stays when the
	// starting process is killed.
	KeepDir bool
	// Log receives progress in whole lines, also from several goroutines, one line at a time. Nil means none.
	Log io.Writer
	// Without lists components not to start: ControllerManager, Scheduler and Kwok can be left out.
	Without []Component
	// ExtraArgs are flags that are added after a component's own, so that they win where a flag is given twice.
	ExtraArgs map[Component][]string
	// NoAudit turns the audit log off.
	NoAudit bool
	// AuditObjects lists resources, without a version. The audit log has the bodies of writes to them and to their subresources
	// (AuditEvent.Sent and Answer), without managed fields. It then grows by some kilobytes a write.
	AuditObjects []schema.GroupResource
	// AuditManagedFields keeps the managed fields in those bodies, so that they are as large as they were on the wire.
	AuditManagedFields bool
	// PodTermination is how long a pod that is being deleted takes to go, whatever its grace period is; it takes the place of the
	// time in which a real pod shuts down. It is cut to milliseconds.
	PodTermination time.Duration
	// ManagedNodes is a label selector for the Nodes that kwok plays the kubelet of. Empty means all. No process renews the Lease
	// of another Node, and pods there neither start nor go: with "dead!=true", the label dead=true lets a Node die. With any
	// selector, kwok passes over a Node that has no label at all.
	ManagedNodes string
	// ExtraStages are kwok Stages, each one YAML document with "kind: Stage". A stage with the name of a default one
	// (node-initialize, node-heartbeat-with-lease, pod-ready, pod-complete, pod-delete) takes its place.
	// Their fields: https://kwok.sigs.k8s.io/docs/user/stages-configuration/.
	ExtraStages []string
}

func (o Options) validate() error {
	for _, c := range o.Without {
		if c == Etcd || c == APIServer || !slices.Contains(Components(), c) {
			return fmt.Errorf("option Without: %q cannot be left out, only %s, %s and %s can",
				c, ControllerManager, Scheduler, Kwok)
		}
	}
	for c := range o.ExtraArgs {
		if !slices.Contains(Components(), c) {
			return fmt.Errorf("option ExtraArgs: %q: %w", c, ErrUnknownComponent)
		}
	}
	if o.PodTermination < 0 {
		return fmt.Errorf("option PodTermination: %v is negative", o.PodTermination)
	}
	if _, err := labels.Parse(o.ManagedNodes); err != nil {
		return fmt.Errorf("option ManagedNodes: %w", err)
	}
	return nil
}

func (o Options) components() []Component {
	return slices.DeleteFunc(Components(), func(c Component) bool { return slices.Contains(o.Without, c) })
}
