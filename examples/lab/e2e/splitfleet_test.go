//go:build e2e

package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/machinist-dev/machinist/fake"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

// inEach is how many Machines each namespace of a divided fleet has.
const inEach = 10

// divided is a fleet in the namespaces part-a, part-b and part-c, each with a set of that name.
type divided struct {
	*world

	sets map[string]*unstructured.Unstructured // by namespace
}

func newDivided(t *testing.T) *divided {
	t.Helper()
	d := &divided{world: newSetWorld(t), sets: map[string]*unstructured.Unstructured{}}
	d.startProviders(worldOptions{})
	for _, name := range []string{"part-a", "part-b", "part-c"} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		require.NoError(t, d.client.Create(t.Context(), namespace))
		all := d.apply(strings.ReplaceAll(setDocument(name, inEach), "namespace: default", "namespace: "+name))
		d.sets[name] = all[2]
	}
	return d
}

// manages starts a manager of some namespaces.
func (d *divided) manages(user string, namespaces ...string) *managerProcess {
	d.t.Helper()
	return d.runs(user, "--clusters=never", "--machinesets", "--namespace="+strings.Join(namespaces, ","))
}

// has waits until a namespace has so many available Machines, and returns their UIDs.
func (d *divided) has(namespace string, want int) map[types.UID]bool {
	d.t.Helper()
	uids := map[types.UID]bool{}
	d.eventually(fmt.Sprintf("%d available Machines in %s", want, namespace), func() string {
		clear(uids)
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(fake.MachineGVK().GroupVersion().WithKind("MachineList"))
		require.NoError(d.t, d.client.List(d.t.Context(), list, client.InNamespace(namespace)))
		for i := range list.Items {
			if countsAsAvailable(&list.Items[i]) {
				uids[list.Items[i].GetUID()] = true
			}
		}
		if len(uids) != want {
			return fmt.Sprint(len(uids))
		}
		return ""
	})
	return uids
}

// writesOf waits until a user is at rest, and returns what the user has written since a mark.
func (d *divided) writesOf(user string, since cluster.AuditMark) cluster.AuditEvents {
	d.t.Helper()
	return d.restOf(user, since, func(e cluster.AuditEvent) bool { return e.User == user })
}

// touches returns the namespaces of what is written. Nodes have the name of their set.
func touches(written cluster.AuditEvents) map[string]bool {
	all := map[string]bool{}
	for _, e := range written {
		if e.Namespace == "" {
			all[strings.Join(strings.SplitN(e.Name, "-", 3)[:2], "-")] = true
			continue
		}
		all[e.Namespace] = true
	}
	return all
}

// Two managers divide a fleet by namespaces. None touches what is the other's, and a namespace goes from one to the other without a new
// Machine and without a write.
func TestE2ETwoManagersDivideAFleetByNamespaces(t *testing.T) {
	const left, right = "divided-left", "divided-right"
	d := newDivided(t)
	begin := d.marked()
	first, second := d.manages(left, "part-a", "part-b"), d.manages(right, "part-c")
	before := map[string]map[types.UID]bool{}
	for name := range d.sets {
		before[name] = d.has(name, inEach)
	}
	require.Equal(t, map[string]bool{"part-a": true, "part-b": true}, touches(d.writesOf(left, begin)))
	require.Equal(t, map[string]bool{"part-c": true}, touches(d.writesOf(right, begin)))

	first.stop()
	second.stop()
	begin = d.marked()
	const otherLeft, otherRight = left + "-moved", right + "-moved"
	d.manages(otherLeft, "part-a")
	d.manages(otherRight, "part-b", "part-c")
	for _, user := range []string{otherLeft, otherRight} {
		require.Empty(t, d.writesOf(user, begin), user)
	}
	for name := range d.sets {
		require.Equal(t, before[name], d.has(name, inEach))
	}
	d.scaleTo(d.sets["part-b"], inEach+1)
	d.has("part-b", inEach+1)
	require.Empty(t, d.writesOf(otherLeft, begin))
	require.Equal(t, map[string]bool{"part-b": true}, touches(d.writesOf(otherRight, begin)))
	for name, set := range d.sets {
		d.scaleTo(set, 0)
		d.has(name, 0)
		require.NoError(t, d.client.Delete(t.Context(), set))
	}
}
