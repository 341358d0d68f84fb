package machinepool_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/drain/runner"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machinepool"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

// attached are volumes that are attached until a test says otherwise.
type attached struct {
	gone  atomic.Bool
	asked atomic.Int32
}

func (a *attached) StepVolumes(_ context.Context, request runner.Request, _ time.Duration) (runner.VolumesResult, error) {
	a.asked.Add(1)
	return runner.VolumesResult{Done: a.gone.Load(), RequeueAfter: 50 * time.Millisecond}, nil
}

func (*attached) Release(string) {}

func TestAnInstanceDoesNotLeaveBeforeItsVolumesAreDetached(t *testing.T) {
	t.Parallel()
	volumes := &attached{}
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{}, ports: func(_ ctrl.Manager, ports *machinepool.Ports) {
		ports.Workload.Volumes = volumes
	}})
	pool := w.poolWith(1)
	w.reports(pool, "Running", 1, 1)
	w.writeNode("pool-0", markLeaving)
	w.eventually("it is asked for volumes more than once", func() string {
		if volumes.asked.Load() < 3 {
			return "it is not"
		}
		return ""
	})
	w.nodeIs("pool-0", true, false)
	volumes.gone.Store(true)
	w.nodeIs("pool-0", true, true)
}

func TestTheWaitForVolumesHasALimitAndCanBeLeftOut(t *testing.T) {
	t.Parallel()
	for name, option := range map[string]fake.Option{
		"limit":    fake.WithField(map[string]any{"nodeVolumeDetachTimeoutSeconds": int64(1)}, "spec", "template", "spec", "deletion"),
		"left out": fake.WithAnnotations(map[string]string{contract.ExcludeVolumeDetach: ""}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{}, ports: func(_ ctrl.Manager, ports *machinepool.Ports) {
				ports.Workload.Volumes = &attached{}
			}})
			pool := w.poolWith(1, option)
			w.reports(pool, "Running", 1, 1)
			w.writeNode("pool-0", markLeaving)
			w.nodeIs("pool-0", true, true)
		})
	}
}

// waiting are volumes that count how often a Node had some attached.
type waiting struct {
	cluster.Volumes

	attached atomic.Int32
}

func (v *waiting) StepVolumes(ctx context.Context, request runner.Request, timeout time.Duration) (runner.VolumesResult, error) {
	result, err := v.Volumes.StepVolumes(ctx, request, timeout)
	if err == nil && !result.Done && len(result.Attached) > 0 {
		v.attached.Add(1)
	}
	return result, err
}

func TestThePortsOfAManagerWaitForVolumes(t *testing.T) {
	t.Parallel()
	volumes := &waiting{}
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{}, ports: func(_ ctrl.Manager, ports *machinepool.Ports) {
		volumes.Volumes = ports.Workload.Volumes
		ports.Workload.Volumes = volumes
	}})
	pool := w.poolWith(1)
	w.reports(pool, "Running", 1, 1)
	volume, attachment := w.attach("data", "pool-0")
	w.writeNode("pool-0", markLeaving)
	w.eventually("the volume is waited for", func() string {
		if volumes.attached.Load() == 0 {
			return "it is not"
		}
		return ""
	})
	w.nodeIs("pool-0", true, false)
	require.NoError(t, w.client.Delete(t.Context(), attachment))
	require.NoError(t, w.client.Delete(t.Context(), volume))
	w.nodeIs("pool-0", true, true)
}

func TestVolumesInADeletion(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{}})
	pool, infra := w.poolWith(1), fake.InfraMachinePool(contract.V1Beta2, "pool")
	w.reports(pool, "Running", 1, 1)
	_, attachment := w.attach("data", "pool-0")
	require.NoError(t, w.client.Delete(t.Context(), pool))
	w.eventually("the volume is named", func() string {
		c := conditionOf(w.get(pool), contract.ConditionDeleting)
		if !strings.Contains(c.Message, "1 Nodes are left; waiting for Node pool-0:\n") || !strings.Contains(c.Message, "default/data") {
			return c.Message
		}
		return ""
	})
	if w.get(infra).GetDeletionTimestamp() != nil {
		t.Error("the instance went with a volume attached")
	}
	require.NoError(t, w.client.Delete(t.Context(), attachment))
	w.eventually("the pool is gone", func() string {
		if fresh := w.get(pool); fresh != nil {
			return describe(fresh)
		}
		return ""
	})
}

func TestANodeIsDrainedHoweverManyWaitForTheirVolumes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{}})
	pool := w.poolWith(3)
	w.reports(pool, "Running", 3, 3)
	w.attach("data-0", "pool-0")
	_, attachment := w.attach("data-1", "pool-1")
	for _, name := range []string{"pool-0", "pool-1", "pool-2"} {
		w.writeNode(name, markLeaving)
	}
	w.nodeIs("pool-2", true, true)
	w.nodeIs("pool-0", true, false)
	w.nodeIs("pool-1", true, false)
	require.NoError(t, w.client.Delete(t.Context(), attachment))
	w.nodeIs("pool-1", true, true)
	w.nodeIs("pool-0", true, false)
}

// unreadable are volumes that cannot be read.
type unreadable struct{ attached }

func (*unreadable) StepVolumes(context.Context, runner.Request, time.Duration) (runner.VolumesResult, error) {
	return runner.VolumesResult{}, errors.New("volumes are forbidden")
}

func TestUnreadVolumesInADeletion(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{}, ports: func(_ ctrl.Manager, ports *machinepool.Ports) {
		ports.Workload.Volumes = &unreadable{}
	}})
	pool := w.poolWith(1)
	w.reports(pool, "Running", 1, 1)
	require.NoError(t, w.client.Delete(t.Context(), pool))
	w.eventually("the error is named", func() string {
		c := conditionOf(w.get(pool), contract.ConditionDeleting)
		if !strings.Contains(c.Message, "waiting for Node pool-0:\n* volumes are forbidden") {
			return c.Message
		}
		return ""
	})
}

// attach creates a PersistentVolume and attaches it to a Node.
func (w *world) attach(name, node string) (*corev1.PersistentVolume, *storagev1.VolumeAttachment) {
	w.t.Helper()
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			ClaimRef:    &corev1.ObjectReference{Namespace: "default", Name: name},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: "csi.example.com", VolumeHandle: name},
			},
		},
	}
	attachment := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: "va-" + name},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: "csi.example.com", NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &name},
		},
	}
	w.create(volume, attachment)
	attachment.Status.Attached = true
	require.NoError(w.t, w.client.Status().Update(w.t.Context(), attachment))
	return volume, attachment
}

func TestRightsForNodesAreThoseOfDrainsWithVolumes(t *testing.T) {
	t.Parallel()
	nodes := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"delete", "get", "list", "patch", "watch"}},
	}
	require.Equal(t, nodes, machinepool.NodePolicyRules(machinepool.Wiring{}))
	drains := contract.MergePolicyRules(nodes, runner.PolicyRules())
	require.Equal(t, drains, machinepool.NodePolicyRules(machinepool.Wiring{Drains: true}))
}
