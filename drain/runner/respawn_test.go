package runner

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/drain"
)

func ownedByUID(uid types.UID) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "owner", UID: uid, Controller: new(true)}}
}

func TestStep_APodThatComesBackRestsLongerEachTime(t *testing.T) {
	g := newRig(t, func(c *Config) { c.Budgets = nil })
	create := func(name string) *corev1.Pod {
		p := pod("n", name)
		p.OwnerReferences = ownedByUID("rs")
		return p
	}
	stranger := pod("n", "stranger")
	stranger.OwnerReferences = ownedByUID("other")
	g.pods.put(create("first"), create("second"))
	g.start()
	defer g.stop()
	g.step("n")
	g.settled(2)
	g.pods.remove("n", "uid-first")
	g.pods.remove("n", "uid-second")

	name, sent := "", 2
	for i, rest := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second} {
		g.pods.remove("n", types.UID("uid-"+name))
		name = []string{"again1", "again2", "again3"}[i]
		g.pods.put(create(name))
		got := g.step("n")
		if len(got.Blockers) != 1 || got.Blockers[0].Reason != drain.ReasonRespawned || got.RequeueAfter != min(rest, 15*time.Second) {
			t.Fatalf("want a rest of %s, got %+v", rest, got)
		}
		g.clock.Step(rest - time.Millisecond)
		g.step("n")
		g.settled(sent)
		g.clock.Step(time.Millisecond)
		g.step("n")
		sent++
		g.settled(sent)
	}
	g.pods.put(stranger) // bound late, but no Pod of its controller was evicted
	g.step("n")
	g.settled(sent + 1)
}
