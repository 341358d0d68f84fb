package runner_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// How far what others do may be behind. Together the first two stay below Config.Settle (2 s): beyond it no client that
// only watches can know that a pod was bound right after the cordon.
const (
	bindLag = 400 * time.Millisecond  // from the scheduler's choice of a Node to the binding
	podLag  = 1400 * time.Millisecond // of the pod caches that say they are synced
	nodeLag = 2 * time.Second
)

// simCluster is what the API server stores. Objects are replaced, never changed, so that caches can share them.
type simCluster struct {
	version int
	serial  int
	nodes   map[string]*corev1.Node
	pods    map[types.NamespacedName]*simPod
	budgets map[types.NamespacedName]*simBudget
	apps    []*simApp
	spaces  map[string]simSpace
}

type simSpace int

const (
	spaceActive simSpace = iota
	spaceTerminating
	spaceGone
)

type simPod struct {
	obj     *corev1.Pod
	app     *simApp
	nodeUID types.UID // of the Node it was bound to
	bound   time.Time
	evicted bool
	leaving bool // a webhook was asked to let it go
	raced   bool // bound to a cordoned Node by a scheduler that did not know yet
}

func (p *simPod) key() types.NamespacedName {
	return types.NamespacedName{Namespace: p.obj.Namespace, Name: p.obj.Name}
}

// blocks says whether a drain with the default rules has to wait for the pod.
func (p *simPod) blocks() bool {
	return p.app.kind != appDaemonSet && p.app.kind != appStatic && p.obj.Labels[skipLabel] == ""
}

type simBudget struct {
	obj      *policyv1.PodDisruptionBudget
	dirty    bool // a pod became unavailable without an eviction, or the rules changed, since the last count
	counting bool // a count is planned
}

type simAppKind int

const (
	appReplicaSet  simAppKind = iota // replaced elsewhere as soon as a pod terminates
	appStatefulSet                   // re-created under the same name once the pod is gone
	appDaemonSet
	appStatic
	appBare // it is not created again
)

type simApp struct {
	ns, name  string
	kind      simAppKind
	replicas  int
	grace     int64
	readyIn   time.Duration
	sick      bool // pods run but do not become ready
	tolerates bool // the cordon
	guarded   bool // a webhook denies evictions and makes the pods go itself, as KubeVirt's does
	pending   int  // pods that the scheduler works on
}

func (a *simApp) labels() map[string]string {
	return map[string]string{"app": a.name, "tier": "t" + a.name[:1]}
}

func (s *sim) nextVersion() string {
	s.version++
	return strconv.Itoa(s.version)
}

func (s *sim) nextUID() types.UID {
	s.serial++
	return types.UID(fmt.Sprintf("u%04d", s.serial))
}

// writeNode stores a Node, or deletes it for nil, and tells the caches.
func (s *sim) writeNode(name string, node *corev1.Node) {
	if node == nil {
		delete(s.nodes, name)
	} else {
		node.ResourceVersion = s.nextVersion()
		s.nodes[name] = node
	}
	if s.proc != nil {
		s.proc.nodeChanged(name, node)
	}
}

// writePod changes a copy of a pod and stores it.
func (s *sim) writePod(p *simPod, change func(*corev1.Pod)) {
	obj := p.obj.DeepCopy()
	change(obj)
	obj.ResourceVersion = s.nextVersion()
	p.obj = obj
	s.podChanged(obj, false)
}

func (s *sim) removePod(p *simPod) {
	if s.pods[p.key()] != p {
		return
	}
	if p.obj.DeletionTimestamp == nil && !p.evicted {
		s.blame(p)
	}
	delete(s.pods, p.key())
	s.podChanged(p.obj, true)
	s.restore(p.app, p.obj.Name)
}

func (s *sim) podChanged(obj *corev1.Pod, gone bool) {
	if s.proc != nil {
		s.proc.pods.changedAt(obj, gone)
	}
	for _, b := range s.budgetsOf(obj) {
		s.planCount(b)
	}
}

// deletePod does what a graceful DELETE does. byEviction tells the budgets' books whom to blame.
func (s *sim) deletePod(p *simPod, byEviction bool) {
	if p.obj.DeletionTimestamp != nil {
		return
	}
	p.evicted = byEviction
	if !byEviction {
		s.blame(p)
	}
	grace := p.app.grace
	if grace == 0 || p.obj.Status.Phase == corev1.PodSucceeded || p.obj.Status.Phase == corev1.PodFailed {
		s.removePod(p)
		return
	}
	s.writePod(p, func(obj *corev1.Pod) {
		obj.DeletionTimestamp = &metav1.Time{Time: time.Now().Add(time.Duration(grace) * time.Second)}
		obj.DeletionGracePeriodSeconds = &grace
	})
	s.after(s.upTo(time.Duration(grace)*time.Second), func() { s.removePod(p) })
	if p.app.kind == appReplicaSet {
		s.restore(p.app, p.obj.Name)
	}
}

// blame remembers that a budget's pods suffered from something else than evictions.
func (s *sim) blame(p *simPod) {
	for _, b := range s.budgetsOf(p.obj) {
		b.dirty = true
	}
}

// restore lets the owner of a pod that goes create another one.
func (s *sim) restore(app *simApp, name string) {
	switch app.kind {
	case appReplicaSet:
		s.serial++
		name = fmt.Sprintf("%s-%04d", app.name, s.serial)
		if s.alive(app)+app.pending >= app.replicas {
			return
		}
	case appStatefulSet:
	case appDaemonSet, appStatic, appBare:
		return
	}
	app.pending++
	s.after(50*time.Millisecond+s.upTo(time.Second), func() { s.schedule(app, name) })
}

func (s *sim) alive(app *simApp) int {
	n := 0
	for _, p := range s.pods {
		if p.app == app && p.obj.DeletionTimestamp == nil && p.obj.Status.Phase != corev1.PodSucceeded && p.obj.Status.Phase != corev1.PodFailed {
			n++
		}
	}
	return n
}

// schedule picks a Node that takes pods now and binds a little later, whatever happened to the Node meanwhile.
func (s *sim) schedule(app *simApp, name string) {
	if s.spaces[app.ns] != spaceActive {
		app.pending--
		return
	}
	var open []string
	for _, node := range slices.Sorted(maps.Keys(s.nodes)) {
		if app.tolerates || !s.nodes[node].Spec.Unschedulable {
			open = append(open, node)
		}
	}
	if len(open) == 0 {
		s.after(time.Second, func() { s.schedule(app, name) })
		return
	}
	node, tolerates := s.nodes[open[s.rng.IntN(len(open))]], app.tolerates
	s.after(s.upTo(bindLag), func() {
		now := s.nodes[node.Name]
		if now == nil || now.UID != node.UID {
			s.schedule(app, name)
			return
		}
		app.pending--
		s.bind(app, name, now, tolerates)
	})
}

func (s *sim) bind(app *simApp, name string, node *corev1.Node, tolerates bool) {
	if s.spaces[app.ns] != spaceActive || s.pods[types.NamespacedName{Namespace: app.ns, Name: name}] != nil {
		return
	}
	p := &simPod{
		app: app, nodeUID: node.UID, bound: time.Now(),
		raced: node.Spec.Unschedulable && !tolerates && app.kind != appDaemonSet,
		obj: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: app.ns, Name: name, UID: s.nextUID(), Labels: app.labels(), ResourceVersion: s.nextVersion()},
			Spec:       corev1.PodSpec{NodeName: node.Name},
			Status:     corev1.PodStatus{Phase: corev1.PodPending},
		},
	}
	switch app.kind {
	case appDaemonSet:
		p.obj.OwnerReferences = []metav1.OwnerReference{
			{APIVersion: "apps/v1", Kind: "DaemonSet", Name: app.name, UID: "ds", Controller: new(true)}}
	case appStatic:
		p.obj.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	case appReplicaSet, appStatefulSet, appBare:
	}
	s.pods[p.key()] = p
	s.podChanged(p.obj, false)
	s.note("bind %s %s to %s%s", p.key(), p.obj.UID, node.Name, map[bool]string{true: " (raced)"}[p.raced])
	s.checkBinding(p)
	s.after(app.readyIn, func() { s.becomeReady(p) })
}

func (s *sim) becomeReady(p *simPod) {
	if s.pods[p.key()] != p || p.obj.DeletionTimestamp != nil || finishedPod(p.obj) {
		return
	}
	if p.app.sick {
		s.blame(p)
	}
	s.writePod(p, func(obj *corev1.Pod) {
		obj.Status.Phase = corev1.PodRunning
		obj.Status.Conditions = readiness(!p.app.sick)
	})
}

func readiness(ready bool) []corev1.PodCondition {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	return []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}
}

func finishedPod(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

func readyPod(pod *corev1.Pod) bool {
	return len(pod.Status.Conditions) == 1 && pod.Status.Conditions[0].Status == corev1.ConditionTrue
}
