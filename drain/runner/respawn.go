package runner

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/drain"
)

// respawns limits the evictions of Pods whose controller ignores the cordon: every eviction would create the next Pod (Cluster API #12640,
// machine-api-operator #1051). A Pod counts as created again when it was not on the Node at the first Step that was shown the cordon, and a
// Pod of its controller was evicted before. Clocks are not compared.
type respawns struct {
	known       map[types.UID]bool // Pods of the first look; nil before it
	controllers map[types.UID]respawning
}

// respawning is what is known of a controller: how many of its new Pods have left, and until when the next one rests.
type respawning struct {
	times int
	until time.Time
}

// look remembers the Pods that are on the Node when the cordon is first seen.
func (s *respawns) look(pods []*corev1.Pod) {
	if s.known != nil {
		return
	}
	s.known, s.controllers = make(map[types.UID]bool, len(pods)), map[types.UID]respawning{}
	for _, pod := range pods {
		s.known[pod.UID] = true
	}
}

// evicted records that a Pod was evicted or deleted.
func (s *respawns) evicted(pod, controller types.UID, now time.Time) {
	if controller == "" || s.known == nil {
		return
	}
	c := s.controllers[controller]
	if !s.known[pod] {
		c.times++
	}
	c.until = now.Add(drain.Rest(drain.ReasonRespawned, 0, c.times+1))
	s.controllers[controller] = c
}

// hold adds holds for the Pods that rest, and returns when the first rest ends; zero when none rests.
func (s *respawns) hold(pods []*corev1.Pod, held map[types.UID]drain.Hold, now time.Time) (next time.Time) {
	if len(s.controllers) == 0 {
		return time.Time{}
	}
	for _, pod := range pods {
		c := s.controllers[controllerOf(pod)]
		if _, busy := held[pod.UID]; busy || s.known[pod.UID] || !now.Before(c.until) {
			continue
		}
		held[pod.UID] = drain.Hold{
			Reason: drain.ReasonRespawned,
			Message: "its controller creates Pods on the cordoned Node again; let them not tolerate the taint " +
				corev1.TaintNodeUnschedulable + ", or exempt them from the drain",
		}
		if next.IsZero() || c.until.Before(next) {
			next = c.until
		}
	}
	return next
}

func controllerOf(pod *corev1.Pod) types.UID {
	if ref := metav1.GetControllerOfNoCopy(pod); ref != nil {
		return ref.UID
	}
	return ""
}
