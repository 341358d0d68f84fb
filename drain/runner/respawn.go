package runner

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/drain"
)

// How long the pods of a controller that creates them again on a cordoned Node rest; doubled with every one that went.
const (
	minRespawnRest = 5 * time.Second
	maxRespawnRest = 5 * time.Minute
)

// respawns guards against controllers whose pods tolerate the cordon: every eviction would make the next pod (Cluster API
// #12640, machine-api-operator #1051). A pod counts as created again when it was not there at the first look at the
// cordoned Node and its controller's pod was evicted from here before; clocks are not compared.
type respawns struct {
	known       map[types.UID]bool // pods of the first look; nil before it
	controllers map[types.UID]*respawning
}

type respawning struct {
	times int
	until time.Time
}

// look remembers the pods that the cordon met.
func (s *respawns) look(pods []*corev1.Pod) {
	if s.known != nil {
		return
	}
	s.known = make(map[types.UID]bool, len(pods))
	for _, pod := range pods {
		s.known[pod.UID] = true
	}
}

// evicted books that a pod was made to go.
func (s *respawns) evicted(pod types.UID, controller types.UID, now time.Time) {
	if controller == "" || s.known == nil {
		return
	}
	if s.controllers == nil {
		s.controllers = map[types.UID]*respawning{}
	}
	c := s.controllers[controller]
	if c == nil {
		c = &respawning{}
		s.controllers[controller] = c
	}
	rest := minRespawnRest
	if !s.known[pod] {
		c.times++
		rest = min(maxRespawnRest, minRespawnRest<<min(c.times, 10))
	}
	c.until = now.Add(rest)
}

// hold adds the pods that have to rest, and returns when the first rest ends; zero when nobody rests.
func (s *respawns) hold(pods []*corev1.Pod, held map[types.UID]drain.Hold, now time.Time) (next time.Time) {
	if len(s.controllers) == 0 {
		return time.Time{}
	}
	for _, pod := range pods {
		c := s.controllers[controllerOf(pod)]
		if c == nil || s.known[pod.UID] || !now.Before(c.until) {
			continue
		}
		if _, busy := held[pod.UID]; busy {
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
