//go:build e2e

package e2e_test

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/machinist-dev/machinist/examples/manager/kwokdriver"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

const (
	// comesToRest is for how long the programs may have something to tell after a rollout, and quiet for how long they have nothing to say
	// then. fewRequests are those of a refresh of instances, which a provider spreads over ten minutes.
	comesToRest, quiet = time.Minute, 15 * time.Second
	fewRequests        = 20
)

// terms are what the log is judged by.
func (w *chaosWorld) terms() Terms {
	t := Terms{
		Managers: []string{managerA, managerB, nodesUser}, Provider: providerUser,
		Deployment: "fleet", Desired: chaotic, Surge: chaoticSurge, Unavailable: chaoticUnavailable, Apps: map[string]int{},
	}
	for i := range apps {
		t.Apps[fmt.Sprintf("guarded-%d", i)] = chaosPods - chaosAway
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	t.Lost = append(t.Lost, w.lost...)
	return t
}

// judge checks the invariants.
func (w *chaosWorld) judge() {
	w.t.Helper()
	events, err := w.plane.Audit().Events()
	require.NoError(w.t, err)
	terms := w.terms()
	broken, err := Judge(terms, events)
	require.NoError(w.t, err)
	for _, b := range broken {
		w.t.Errorf("seed %d: %s", w.seed, b)
	}
	count, err := Counted(terms, events)
	require.NoError(w.t, err)
	w.t.Logf("judged by %d requests: %+v", len(events), count)
	require.GreaterOrEqual(w.t, count.Machines, 2*chaotic)
	require.GreaterOrEqual(w.t, count.Deletions, chaotic/2, "available Machines were deleted")
	require.GreaterOrEqual(w.t, count.Evictions, chaotic/2)
	takeovers := Takeovers(leaseOfManagers, events)
	for _, t := range takeovers {
		w.t.Logf("%s: %s leads", t.At.Sub(w.start).Round(100*time.Millisecond), t)
	}
	require.GreaterOrEqual(w.t, len(takeovers), 2, "the leader is killed and frozen")
}

// keepsSecrets checks that no log of a program has a private key or first-boot data, neither as they are nor in base64.
func (w *chaosWorld) keepsSecrets() {
	w.t.Helper()
	require.Len(w.t, w.secrets, len(w.programs)+1, "one for each program, and one for the Nodes")
	hidden := []string{bootData, base64.StdEncoding.EncodeToString([]byte(bootData))[:32]}
	for _, key := range w.secrets {
		begin, body, _ := strings.Cut(key, "\n")
		first, _, _ := strings.Cut(body, "\n")
		require.Contains(w.t, begin, "PRIVATE KEY")
		hidden = append(hidden, first, base64.StdEncoding.EncodeToString([]byte(key))[48:112]) // behind what all keys begin with
	}
	for name := range w.programs {
		log, err := os.ReadFile(filepath.Join(w.logs, name+".log"))
		require.NoError(w.t, err)
		require.NotEmpty(w.t, log)
		for _, secret := range hidden {
			require.NotContains(w.t, string(log), secret, "%s.log", name)
		}
	}
}

// leaves says what there is too many of, or too few. A deployment keeps one set of an earlier version, however many rollouts there were.
func (w *chaosWorld) leaves() string {
	w.t.Helper()
	for _, kind := range []struct {
		gvk  schema.GroupVersionKind
		want int
	}{
		{schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "Machine"}, chaotic + 1},
		{kwokdriver.GVK(), chaotic + 1},
		{corev1.SchemeGroupVersion.WithKind("Node"), chaotic + 1},
		{corev1.SchemeGroupVersion.WithKind("Pod"), apps*chaosPods + 1},
		{schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "MachineSet"}, min(w.version, 2)},
	} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.gvk.GroupVersion().WithKind(kind.gvk.Kind + "List"))
		require.NoError(w.t, w.client.List(w.t.Context(), list))
		if len(list.Items) != kind.want {
			return fmt.Sprintf("%d %s objects, not %d", len(list.Items), kind.gvk.Kind, kind.want)
		}
		for i := range list.Items {
			if left := unclean(&list.Items[i]); left != "" {
				return left
			}
		}
	}
	return w.podsMissing()
}

// unclean says what of a rollout is left on an object.
func unclean(obj *unstructured.Unstructured) string {
	if obj.GetDeletionTimestamp() != nil {
		return obj.GetKind() + " " + obj.GetName() + " is being deleted"
	}
	if cordoned, _, _ := unstructured.NestedBool(obj.Object, "spec", "unschedulable"); cordoned {
		return "Node " + obj.GetName() + " is cordoned"
	}
	return ""
}

// othersStay checks what belongs to others: the paused Machine may say that it is paused, and Kubernetes lives on its own.
func (w *chaosWorld) othersStay() {
	w.t.Helper()
	for _, was := range w.others {
		is := w.get(was)
		require.NotNil(w.t, is, "%s %s is gone", was.GetKind(), was.GetName())
		require.Equal(w.t, was.GetUID(), is.GetUID())
		require.Nil(w.t, is.GetDeletionTimestamp())
		require.Equal(w.t, was.GetOwnerReferences(), is.GetOwnerReferences())
		require.Equal(w.t, was.GetLabels()["pool"], is.GetLabels()["pool"])
		if was.GetKind() != "Pod" && was.GetKind() != "Node" { // those have defaults and taints of their own
			require.Equal(w.t, was.Object["spec"], is.Object["spec"], was.GetKind())
		}
	}
}

// chatter are requests of the managers and the provider that have a cause: leases and watches end by themselves.
func (w *chaosWorld) chatter(since cluster.AuditMark) cluster.AuditEvents {
	w.t.Helper()
	events, err := w.plane.Audit().Since(since)
	require.NoError(w.t, err)
	return events.Where(func(e cluster.AuditEvent) bool {
		return strings.HasPrefix(e.User, "chaos-") && e.Verb != "watch" && e.Resource != "leases" && e.Resource != ""
	})
}

// fallSilent waits until there is little to hear and nothing is written, and listens for a while.
func (w *chaosWorld) fallSilent() {
	w.t.Helper()
	mark := func() cluster.AuditMark {
		m, err := w.plane.Audit().Mark()
		require.NoError(w.t, err)
		return m
	}
	var since cluster.AuditMark
	w.within(comesToRest, "silence", func() string {
		since = mark()
		require.NoError(w.t, at(w.t.Context(), time.Now().Add(3*time.Second)))
		if made := w.chatter(since); len(made) > fewRequests || len(made.Writes()) > 0 {
			return made.String()
		}
		return ""
	})
	require.NoError(w.t, at(w.t.Context(), time.Now().Add(quiet)))
	made := w.chatter(since)
	w.t.Logf("of %d Machines at rest, for %s: %s", chaotic, quiet+3*time.Second, made)
	require.LessOrEqual(w.t, len(made), fewRequests)
	require.Empty(w.t, made.Writes())
}

// ends checks what is left of everything.
func (w *chaosWorld) ends() {
	w.t.Helper()
	w.eventually("nothing to be left over", w.leaves)
	w.fallSilent()
	if said := w.leaves(); said != "" {
		w.t.Error(said)
	}
	w.othersStay()
	select {
	case err := <-w.plane.Died():
		w.t.Errorf("a component ended by itself: %v", err)
	default:
	}
}
