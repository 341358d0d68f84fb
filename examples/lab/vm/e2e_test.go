//go:build e2evm

package vm_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/apitest/published"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/machine/userdata"
	"github.com/machinist-dev/machinist/phases"
	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
	"github.com/machinist-dev/machinist/examples/lab/vm"
)

// patience is how long a step of an emulated machine may take on a busy computer.
const patience = 20 * time.Minute

// preinstalled takes the place of what installs packages, because they are in the image.
const preinstalled = `#!/bin/bash
apply_network() { :; }
trust_certificates() { :; }
install_runtime() { :; }
install_kubelet() { :; }
`

// scene is a real control plane with the reconciler of Machines, and virtual machines.
type scene struct {
	t          *testing.T
	plane      *cluster.ControlPlane
	client     client.WithWatch
	driver     *vm.Driver
	folder     string
	registry   *registry
	pause, app string // images
	start      time.Time
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{t: t, start: time.Now()}
	kubelet, err := cluster.BuildKubelet(t.Context(), os.Stderr)
	require.NoError(t, err)
	image, err := vm.MakeImage(t.Context(), kubelet, os.Stderr)
	require.NoError(t, err)
	s.took("the kubelet and the disk of Debian are there")
	s.plane, err = cluster.Start(t.Context(), cluster.Options{Log: os.Stderr, Without: []cluster.Component{cluster.Kwok}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.plane.Stop()) })
	require.NoError(t, cluster.AllowBootstrap(t.Context(), s.plane.Config()))
	crds, err := published.CRDs(t.Context(), "k8c.io/machine-controller@v1.60.0", "examples/machine-controller.yaml")
	require.NoError(t, err)
	require.NoError(t, cluster.InstallCRDs(t.Context(), s.plane.Config(), crds["Machine"]))
	s.client, err = client.NewWithWatch(s.plane.Config(), client.Options{})
	require.NoError(t, err)
	s.registry = newRegistry(t)
	s.pause, s.app = s.registry.push(t, "pause"), s.registry.push(t, "app", "serve")
	s.folder = filepath.Join(s.plane.Dir(), "machines") // goes with the control plane, also when this process is killed
	s.driver = vm.New(image, s.folder)
	t.Cleanup(s.stopMachines)
	s.reconcile()
	return s
}

// stopMachines deletes what a failed test has left.
func (s *scene) stopMachines() {
	ctx := context.WithoutCancel(s.t.Context())
	left, err := s.driver.List(ctx, provider.Request{})
	require.NoError(s.t, err)
	for _, i := range left {
		_, err := s.driver.Delete(ctx, provider.Request{Token: i.Token})
		require.NoError(s.t, err)
	}
}

// took prints what has happened, and when.
func (s *scene) took(what string) {
	s.t.Helper()
	s.t.Logf("%7s  %s", time.Since(s.start).Round(100*time.Millisecond), what)
}

// reconcile runs the reconciler of Machines until the test ends.
func (s *scene) reconcile() {
	s.t.Helper()
	ctrl.SetLogger(logr.Discard())
	config := s.plane.Config()
	options := ctrl.Options{Logger: logr.Discard(), Metrics: server.Options{BindAddress: "0"}}
	options.Controller.UsePriorityQueue = new(false) // it can hang when it is shut down: kubernetes-sigs/controller-runtime#3538
	mgr, err := ctrl.NewManager(config, options)
	require.NoError(s.t, err)
	api := strings.Replace(config.Host, "127.0.0.1", vm.Host, 1)
	tokens, calls := machine.JoinTokens{}, provider.Of(s.driver, provider.Timeout(time.Minute))
	specs := machine.ProviderSpecs{Token: tokens.Token, Config: func(_ context.Context, m *machine.Scope) (userdata.Config, error) {
		return userdata.Config{
			Cluster:      userdata.Cluster{Server: api, CA: string(config.CAData)},
			Node:         userdata.Node{Name: m.State.Key.Name, ProviderID: vm.ProviderID(string(m.State.UID))},
			SandboxImage: s.pause,
			Files: []userdata.File{s.registry.trust(),
				{Path: "/opt/machinist/install.sh", Mode: 0o700, Content: userdata.NewSecret(preinstalled)}},
		}, nil
	}}
	steps := machine.WithDriver(machine.Steps().Remove(machine.StepBootstrap), machine.DriverOptions{
		Calls: calls, RequestOf: specs.RequestOf, UserData: specs.UserData, WithoutBootstrap: true,
	}).Replace(machine.StepPhase, machine.PhaseStep(phases.Kubermatic(), machine.KubermaticFacts))
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.t.Context()))
	_, err = machine.SetupWithManager(ctx, mgr, contract.Kubermatic().Machine, machine.Options{Steps: machine.WithJoinTokens(steps, tokens)})
	ended := make(chan error, 1)
	s.t.Cleanup(func() {
		cancel()
		require.NoError(s.t, <-ended)
	})
	if err != nil {
		ended <- nil
		s.t.Fatal(err)
	}
	go func() { ended <- mgr.Start(ctx) }()
}

// eventually waits until look returns nothing, and returns the last thing that is missing as a failure.
func (s *scene) eventually(what string, look func() string) {
	s.t.Helper()
	missing := ""
	for limit := time.Now().Add(patience); time.Now().Before(limit); time.Sleep(time.Second) {
		if missing = look(); missing == "" {
			s.took(what)
			return
		}
	}
	s.t.Fatalf("%s: not after %s: %s", what, patience, missing)
}

// read reads an object, and returns what is missing when that fails.
func (s *scene) read(o client.Object) string {
	if err := s.client.Get(s.t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		return err.Error()
	}
	return ""
}

// worker creates a Machine and waits until it runs and its Node is ready.
func (s *scene) worker(name string) *unstructured.Unstructured {
	s.t.Helper()
	m := &unstructured.Unstructured{}
	require.NoError(s.t, m.UnmarshalJSON(fmt.Appendf(nil, `{"apiVersion":"cluster.k8s.io/v1alpha1","kind":"Machine",
		"metadata":{"name":%q,"namespace":"default"},"spec":{"versions":{"kubelet":"1.36.3"},"providerSpec":{"value":{
		"cloudProvider":"qemu","operatingSystem":"ubuntu","cloudProviderSpec":{"memoryMiB":2048}}}}}`, name)))
	require.NoError(s.t, s.client.Create(s.t.Context(), m))
	s.t.Cleanup(func() {
		if s.t.Failed() {
			console := s.driver.Console(string(m.GetUID()))
			s.t.Logf("the end of the console:\n%s", console[max(0, len(console)-20_000):])
		}
	})
	s.eventually("the machine boots", func() string {
		if !strings.Contains(s.driver.Console(string(m.GetUID())), "Linux version") {
			return fmt.Sprint(m.Object["status"], s.read(m))
		}
		return ""
	})
	node := &corev1.Node{}
	node.Name = name
	s.eventually("its Node has joined", func() string { return s.read(node) })
	s.eventually("its Node is ready and its Machine runs", func() string {
		phase, _, _ := unstructured.NestedString(m.Object, "status", "phase")
		ready := phase == "Running"
		for _, c := range node.Status.Conditions {
			ready = ready && (c.Type != corev1.NodeReady || c.Status == corev1.ConditionTrue)
		}
		if !ready || len(node.Spec.Taints) > 0 {
			return fmt.Sprint(s.read(node), s.read(m), m.Object["status"], node.Spec.Taints, node.Status.Conditions)
		}
		return ""
	})
	s.t.Logf("%+v", node.Status.NodeInfo)
	require.Equal(s.t, vm.ProviderID(string(m.GetUID())), node.Spec.ProviderID)
	return m
}

// joinedByToken checks that the one certificate of a kubelet was asked for with a bootstrap token, and that the token is gone.
func (s *scene) joinedByToken() {
	s.t.Helper()
	var requests certificatesv1.CertificateSigningRequestList
	require.NoError(s.t, s.client.List(s.t.Context(), &requests))
	require.Len(s.t, requests.Items, 1)
	require.Regexp(s.t, "^system:bootstrap:", requests.Items[0].Spec.Username)
	s.eventually("its bootstrap token is gone", func() string {
		var tokens corev1.SecretList
		require.NoError(s.t, s.client.List(s.t.Context(), &tokens, client.InNamespace("kube-system"),
			client.MatchingFields{"type": string(corev1.SecretTypeBootstrapToken)}))
		return map[bool]string{false: "it is there"}[len(tokens.Items) == 0]
	})
}

// run runs a pod that starts only where the sentinel file of the first boot is, and waits until it answers on its own address.
func (s *scene) run(name, node string) *corev1.Pod {
	s.t.Helper()
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = "default", name
	pod.Spec = corev1.PodSpec{
		Containers: []corev1.Container{{
			Name: "app", Image: s.app,
			ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(8080)}}},
			VolumeMounts:   []corev1.VolumeMount{{Name: "joined", MountPath: "/joined", ReadOnly: true}},
		}},
		Volumes: []corev1.Volume{{Name: "joined", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{
			Path: userdata.SentinelFile, Type: new(corev1.HostPathFile),
		}}}},
	}
	require.NoError(s.t, s.client.Create(s.t.Context(), pod))
	s.eventually("a pod is ready on the Node", func() string {
		missing := s.read(pod)
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				return missing
			}
		}
		return fmt.Sprint(missing, pod.Status)
	})
	require.Equal(s.t, node, pod.Spec.NodeName)
	require.Regexp(s.t, `^10\.244\.0\.`, pod.Status.PodIP)
	return pod
}

// A Machine becomes a Node from nothing but its first-boot data, and goes with all that was made for it.
func TestE2EAMachineBootsJoinsRunsAPodIsDrainedAndGoes(t *testing.T) {
	s := newScene(t)
	m := s.worker("worker-1")
	s.joinedByToken()
	pod := s.run("app", "worker-1")
	changes, err := s.client.Watch(t.Context(), &corev1.PodList{}, client.InNamespace(pod.Namespace))
	require.NoError(t, err)
	defer changes.Stop()

	require.NoError(t, s.client.Delete(t.Context(), m))
	said := lastWords(t, changes)
	s.took("the pod has left")
	require.Equal(t, "ended as it was asked to", said, "the drain waits until the kubelet has ended the pod")
	s.eventually("the Machine is gone", func() string {
		return map[bool]string{false: fmt.Sprint(m.Object["status"])}[strings.Contains(s.read(m), "not found")]
	})
	var nodes corev1.NodeList
	require.NoError(t, s.client.List(t.Context(), &nodes))
	require.Empty(t, nodes.Items)
	left, err := os.ReadDir(s.folder)
	require.NoError(t, err)
	require.Empty(t, left, "no disk is left")
	instances, err := s.driver.List(t.Context(), provider.Request{})
	require.NoError(t, err)
	require.Empty(t, instances)
}

// lastWords waits until a pod is gone, and returns the message with which its container has ended.
func lastWords(t *testing.T, changes watch.Interface) (said string) {
	t.Helper()
	limit := time.After(patience)
	for {
		select {
		case e := <-changes.ResultChan():
			pod, is := e.Object.(*corev1.Pod)
			require.True(t, is, "%v", e)
			for _, c := range pod.Status.ContainerStatuses {
				if c.State.Terminated != nil {
					said = c.State.Terminated.Message
				}
			}
			if e.Type == watch.Deleted {
				return said
			}
		case <-limit:
			t.Fatal("the pod does not leave")
		}
	}
}
