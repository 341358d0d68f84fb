package runner

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// PodSource provides the Pods of draining Nodes. Implementations must be safe for concurrent use.
type PodSource interface {
	// Pods returns the Pods bound to a Node, as shared objects that must not be changed. It does not block; the first call for a Node starts
	// its watch. synced is false until all Pods are known and while the watch fails; an empty result then does not mean that there are none.
	// err is why the source cannot read the Pods.
	Pods(node string) (pods []*corev1.Pod, synced bool, err error)
	// Release ends the watch of a Node. The next call of Pods starts a new watch with a consistent list, which a drain needs at its end.
	Release(node string)
	// Run serves until ctx ends. It calls changed, which must not block, when the result of Pods for a Node may have changed; the empty name
	// means all Nodes. All goroutines of the source end before it returns.
	Run(ctx context.Context, changed func(node string)) error
}

// lists are the lists that a drain reads besides the Node: the Pods of each Node, from the first call until the release, and other kinds,
// from the first use. Each list has its own watch.
type lists struct {
	client client.WithWatch           // not a cache
	budget func(types.NamespacedName) // called when a budget changes, while Run serves
	kinds  meta.RESTMapper            // which kinds the API server serves; may be nil

	mu      sync.Mutex
	open    map[string]*list  // by the objects in the list
	changed func(node string) // of Run
	start   func(*list)       // starts the watch of a list; nil before Run and after its end
}

const (
	byNode      = "spec.nodeName"
	byNamespace = "metadata.namespace"
)

// newLists returns lists that send no request before they are used and Run is called.
func newLists(c client.WithWatch) *lists {
	return &lists{client: c, open: map[string]*list{}, budget: func(types.NamespacedName) {}}
}

// get returns a list, and starts it if it is not open; of creates it.
func (s *lists) get(what string, of func() *list) *list {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.open[what]
	if l == nil {
		l = of()
		l.what = what
		s.open[what] = l
		if s.start != nil {
			s.start(l)
		}
	}
	return l
}

// Pods implements [PodSource]. Before Run and after its end nothing is synced.
func (s *lists) Pods(node string) ([]*corev1.Pod, bool, error) {
	l := s.get(podsOf+node, func() *list {
		return newList(&corev1.PodList{}, nil, func(client.Object) { s.changed(node) }, client.MatchingFields{byNode: node})
	})
	synced, err := l.state()
	if err != nil {
		err = fmt.Errorf("%s: %w", l.what, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return typed[corev1.Pod](l.List()), synced && err == nil && s.start != nil, err
}

const podsOf = "pods of node "

func (s *lists) budgets() *list {
	return s.get("PodDisruptionBudgets", func() *list {
		l := newList(&policyv1.PodDisruptionBudgetList{}, toolscache.Indexers{byNamespace: toolscache.MetaNamespaceIndexFunc},
			func(pdb client.Object) {
				if pdb == nil {
					s.changed("")
					return
				}
				s.budget(client.ObjectKeyFromObject(pdb))
			})
		l.unserved = s.unserved(policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"))
		return l
	})
}

func (s *lists) budgetsIn(_ context.Context, namespace string) ([]*policyv1.PodDisruptionBudget, error) {
	l := s.budgets()
	return under[policyv1.PodDisruptionBudget](l, byNamespace, namespace), l.missing()
}

func (s *lists) attachments() *list {
	nodeOf := func(obj any) ([]string, error) {
		a, _ := obj.(*storagev1.VolumeAttachment)
		return []string{a.Spec.NodeName}, nil
	}
	return s.get("VolumeAttachments", func() *list {
		l := newList(&storagev1.VolumeAttachmentList{}, toolscache.Indexers{byNode: nodeOf}, func(obj client.Object) {
			node := ""
			if a, ok := obj.(*storagev1.VolumeAttachment); ok {
				node = a.Spec.NodeName
			}
			s.changed(node)
		})
		l.unserved = s.unserved(storagev1.SchemeGroupVersion.WithKind("VolumeAttachment"))
		return l
	})
}

// unserved returns a function that reports after a failure that the API server does not serve a kind. Then the kind has no objects: the API
// server itself respects budgets, and without VolumeAttachments no volume that could be read here is attached. The function runs discovery,
// because the failure may come from a proxy, but not if there was no response: discovery does not end with a context.
func (s *lists) unserved(kind schema.GroupVersionKind) func(error) bool {
	return func(err error) bool {
		broken, slow := (*net.OpError)(nil), net.Error(nil)
		if s.kinds == nil || errors.As(err, &broken) || errors.As(err, &slow) && slow.Timeout() {
			return false
		}
		_, err = s.kinds.RESTMapping(kind.GroupKind(), kind.Version)
		return meta.IsNoMatchError(err)
	}
}

func (s *lists) volumes() *list {
	return s.get("PersistentVolumes", func() *list { return newList(&corev1.PersistentVolumeList{}, nil, s.listed) })
}

func (s *lists) namespaces() *list {
	return s.get("Namespaces", func() *list { return newList(&corev1.NamespaceList{}, nil, s.listed) })
}

// listed wakes all owners when a list becomes complete, or the error of an incomplete one changes; not for each object.
func (s *lists) listed(obj client.Object) {
	if obj == nil {
		s.changed("")
	}
}

// Release implements [PodSource]; it does not wait for the watch to end.
func (s *lists) Release(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.open[podsOf+node]; l != nil {
		delete(s.open, podsOf+node)
		if l.cancel != nil {
			l.cancel()
		}
	}
}

// Run implements [PodSource]. A Runner calls it once.
func (s *lists) Run(ctx context.Context, changed func(node string)) error {
	s.mu.Lock()
	var running sync.WaitGroup
	s.changed = changed
	s.start = func(l *list) {
		watching, cancel := context.WithCancel(ctx)
		l.cancel = cancel
		running.Go(func() {
			defer cancel()
			options := toolscache.ReflectorOptions{Name: "drain/" + l.what}
			toolscache.NewReflectorWithOptions(l.listWatch(s.client), nil, l, options).RunWithContext(watching)
		})
	}
	for _, l := range s.open {
		s.start(l)
	}
	s.mu.Unlock()
	<-ctx.Done()
	s.mu.Lock()
	s.start = nil // no watch starts after this
	s.mu.Unlock()
	running.Wait()
	return nil
}
