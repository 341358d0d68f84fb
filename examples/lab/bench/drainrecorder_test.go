package bench

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

func podOn(node, name, uid string, conditions ...corev1.PodCondition) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(uid)},
		Spec:       corev1.PodSpec{NodeName: node},
		Status:     corev1.PodStatus{Conditions: conditions},
	}
}

func TestTheRecorderTellsIncarnationsOfAPodApart(t *testing.T) {
	now := at(0)
	r := newRecorder(func() time.Time { return now })
	ready := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue}
	byAPI := corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI"}
	byScheduler := corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "PreemptionByScheduler"}
	drained := []string{"n1", "n2"}

	r.see(podOn("n1", "web-0", "first", ready), false)
	r.see(podOn("n2", "web-1", "one", ready), false)
	r.see(podOn("n1", "web-2", "two"), false)
	counts := func() map[string]int {
		return map[string]int{
			"ready": r.ready(drained), "left": r.left(drained), "alive": r.alive(),
			"wrong": r.evictedElsewhere(drained),
		}
	}
	compare := func(when string, want map[string]int) {
		t.Helper()
		if diff := cmp.Diff(want, counts()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	compare("at the start", map[string]int{"ready": 2, "left": 3, "alive": 3, "wrong": 0})

	r.see(podOn("n1", "web-0", "first", ready, byAPI), false)
	compare("evicted from a drained Node", map[string]int{"ready": 2, "left": 3, "alive": 3, "wrong": 0})
	now = at(500)
	r.see(cache.DeletedFinalStateUnknown{Obj: podOn("n1", "web-0", "first", ready, byAPI)}, true)
	r.see(podOn("n3", "web-0", "second", ready), false)
	r.see(podOn("n3", "other", "preempted", byScheduler), false)
	compare("created again elsewhere", map[string]int{"ready": 1, "left": 2, "alive": 4, "wrong": 0})

	r.see(podOn("n3", "web-0", "second", ready, byAPI), false)
	now = at(900)
	r.see(podOn("n3", "web-0", "second", ready, byAPI), true)
	compare("evicted from a Node that is not drained", map[string]int{"ready": 1, "left": 2, "alive": 3, "wrong": 1})
	if got := r.lastGone(drained); !got.Equal(at(500)) {
		t.Errorf("the last pod of the drained Nodes went at %s, want %s", got, at(500))
	}
}
