package fake

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

// scheduler binds pods to nodes.
type scheduler struct {
	*Store
	pending map[objectKey]struct{}
}

func (s *scheduler) keys(e event) []objectKey {
	rec := e.record()
	switch rec.kind.GroupKind {
	case podKind:
		if e.current == nil || nodeOf(rec) != "" || rec.meta().GetDeletionTimestamp() != nil {
			delete(s.pending, keyOf(rec))
			return nil
		}
		s.pending[keyOf(rec)] = struct{}{}
		return []objectKey{keyOf(rec)}
	case nodeKind:
		return slices.SortedFunc(maps.Keys(s.pending), func(a, b objectKey) int { return compareKeys(a.NamespacedName, b.NamespacedName) })
	}
	return nil
}

func (s *scheduler) sync(key objectKey) time.Duration {
	rec := s.lookup(key)
	if rec == nil || nodeOf(rec) != "" || rec.meta().GetDeletionTimestamp() != nil {
		return 0
	}
	pod := as[*corev1.Pod](rec)
	if len(pod.Spec.SchedulingGates) > 0 || pod.Spec.SchedulerName != corev1.DefaultSchedulerName {
		return 0
	}
	changed := pod.DeepCopy()
	best := s.choose(pod)
	if best == "" {
		setPodCondition(changed, corev1.PodCondition{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "no node fits",
		}, s.now())
		s.setStatus(rec, changed)
		return 0
	}
	binding := []byte(`{"metadata":{"name":"` + pod.Name + `"},"target":{"kind":"Node","name":"` + best + `"}}`)
	_, _ = s.bind(key.NamespacedName, binding, false) // cannot fail: checked above, and the lock is held
	return 0
}

func (s *scheduler) choose(pod *corev1.Pod) string {
	selector := labels.SelectorFromSet(pod.Spec.NodeSelector)
	var fits []string
	for _, rec := range s.registry.kinds[nodeKind].all("") {
		node := as[*corev1.Node](rec)
		if node.DeletionTimestamp == nil && !node.Spec.Unschedulable && nodeReady(node) == corev1.ConditionTrue &&
			selector.Matches(labels.Set(node.Labels)) && tolerates(pod, node) {
			fits = append(fits, node.Name)
		}
	}
	if len(fits) == 0 {
		return ""
	}
	return slices.MinFunc(fits, func(a, b string) int { return cmp.Compare(len(s.podsOn[a]), len(s.podsOn[b])) })
}

func tolerates(pod *corev1.Pod, node *corev1.Node) bool {
	for i := range node.Spec.Taints {
		taint := &node.Spec.Taints[i]
		if taint.Effect == corev1.TaintEffectPreferNoSchedule {
			continue
		}
		if !slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
			return t.ToleratesTaint(klog.Background(), taint, false)
		}) {
			return false
		}
	}
	return true
}

func nodeReady(node *corev1.Node) corev1.ConditionStatus {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status
		}
	}
	return ""
}

// kubelets replaces the kubelets of all Nodes and the controller that taints Nodes by condition.
type kubelets struct {
	*Store
	loops  Loops
	stages map[objectKey]stage
}

// stage is the current stage of an object and its end.
type stage struct {
	uid  types.UID
	what string
	due  time.Time
}

func (k *kubelets) keys(e event) []objectKey {
	rec := e.record()
	switch rec.kind.GroupKind {
	case podKind:
		if nodeOf(rec) == "" && e.current != nil {
			return nil
		}
		return []objectKey{keyOf(rec)}
	case nodeKind:
		out := []objectKey{keyOf(rec)}
		if e.previous == nil || e.current == nil || readiness(e.previous) != readiness(e.current) {
			for _, pod := range k.podsOnNode(rec.key.Name) {
				out = append(out, keyOf(pod))
			}
		}
		return out
	}
	return nil
}

func readiness(rec *record) corev1.ConditionStatus { return nodeReady(as[*corev1.Node](rec)) }

func (k *kubelets) sync(key objectKey) time.Duration {
	rec := k.lookup(key)
	switch {
	case rec == nil:
		delete(k.stages, key)
		return 0
	case key.GroupKind == nodeKind:
		return k.syncNode(rec)
	}
	return k.syncPod(key, rec)
}

// wait returns how long an object must stay in a stage, counted from its first sync in it; 0 when the time is over.
func (k *kubelets) wait(key objectKey, rec *record, what string, delay time.Duration) time.Duration {
	st, now := k.stages[key], k.clock.Now()
	if st.uid != rec.uid || st.what != what {
		st = stage{uid: rec.uid, what: what, due: now.Add(delay)}
		k.stages[key] = st
	}
	return max(0, st.due.Sub(now))
}

func (k *kubelets) syncNode(rec *record) time.Duration {
	node := as[*corev1.Node](rec)
	if nodeReady(node) == "" {
		ready := node.DeepCopy()
		now := k.now()
		ready.Status.Conditions = append(ready.Status.Conditions, healthy(now)...)
		if len(ready.Status.Addresses) == 0 {
			ready.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: node.Name}}
		}
		k.setStatus(rec, ready)
		return 0 // the event of this write triggers the taints
	}
	wanted := taintsByCondition(node)
	if !slices.Equal(wanted, node.Spec.Taints) {
		changed := node.DeepCopy()
		changed.Spec.Taints = wanted
		k.rewrite(rec, changed)
	}
	return 0
}

func healthy(now metav1.Time) []corev1.NodeCondition {
	report := func(t corev1.NodeConditionType, status corev1.ConditionStatus, reason, message string) corev1.NodeCondition {
		return corev1.NodeCondition{
			Type: t, Status: status, Reason: reason, Message: message, LastHeartbeatTime: now, LastTransitionTime: now,
		}
	}
	return []corev1.NodeCondition{
		report(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
		report(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
		report(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
		report(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady", "kubelet is posting ready status"),
	}
}

// taintsByCondition returns a Node's taints, updated with those that follow from its conditions and cordon.
func taintsByCondition(node *corev1.Node) []corev1.Taint {
	ready := nodeReady(node)
	follow := []struct {
		key    string
		wanted bool
	}{
		{corev1.TaintNodeNotReady, ready == corev1.ConditionFalse},
		{corev1.TaintNodeUnreachable, ready == corev1.ConditionUnknown},
		{corev1.TaintNodeUnschedulable, node.Spec.Unschedulable},
	}
	out := slices.Clone(node.Spec.Taints)
	for _, f := range follow {
		is := func(t corev1.Taint) bool { return t.Key == f.key && t.Effect == corev1.TaintEffectNoSchedule }
		if has := slices.ContainsFunc(out, is); has && !f.wanted {
			out = slices.DeleteFunc(out, is)
		} else if !has && f.wanted {
			out = append(out, corev1.Taint{Key: f.key, Effect: corev1.TaintEffectNoSchedule})
		}
	}
	return out
}

func (k *kubelets) syncPod(key objectKey, rec *record) time.Duration {
	pod := as[*corev1.Pod](rec)
	node := k.registry.kinds[nodeKind].get(types.NamespacedName{Name: pod.Spec.NodeName})
	if node == nil || readiness(node) != corev1.ConditionTrue {
		return 0
	}
	if pod.DeletionTimestamp != nil {
		delay := k.loops.StopPod
		if k.loops.StopPodFunc != nil {
			delay = k.loops.StopPodFunc(pod)
		}
		if left := k.wait(key, rec, "stop", delay); left > 0 {
			return left
		}
		k.discard(rec, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
		return 0
	}
	if pod.Status.Phase != corev1.PodPending {
		return 0
	}
	if left := k.wait(key, rec, "start", k.loops.StartPod); left > 0 {
		return left
	}
	running := pod.DeepCopy()
	now := k.now()
	running.Status.Phase = corev1.PodRunning
	running.Status.StartTime = &now
	for _, t := range []corev1.PodConditionType{corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady} {
		setPodCondition(running, corev1.PodCondition{Type: t, Status: corev1.ConditionTrue}, now)
	}
	k.setStatus(rec, running)
	return 0
}
