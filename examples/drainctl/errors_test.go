package main

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clientsetfake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/fake"
)

func forbidden(resource string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", errors.New(`User "jane" cannot do that`))
}

func TestErrors_SayWhatAPersonCanDo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault fake.Fault
		args  []string
		want  []string
	}{
		"unknown Nodes": {
			args: []string{"run", "x", "a", "y"},
			want: []string{`drainctl: there is no Node "x"`, `drainctl: there is no Node "y"`, "kubectl get nodes"},
		},
		"a selector without Nodes": {args: []string{"plan", "-l", "pool=new"}, want: []string{"-l pool=new selects no Node"}},
		"no right to see pods": {
			fault: fake.Fault{Match: requests("list", "Pod"), Err: forbidden("pods"), Times: -1}, args: []string{"plan", "a"},
			want: []string{"the right to list pods is missing", `User "jane"`, "--print-rbac"},
		},
		"no right to cordon": {
			fault: fake.Fault{Match: requests("patch", "Node"), Err: forbidden("nodes"), Times: -1}, args: []string{"uncordon", "cordoned"},
			want: []string{"the right to patch nodes is missing"},
		},
		"strange credentials": {
			fault: fake.Fault{Match: requests("", "Node"), Err: apierrors.NewUnauthorized("who"), Times: -1}, args: []string{"plan", "a"},
			want: []string{"refuses the credentials"},
		},
		"a broken server": {
			fault: fake.Fault{Match: requests("list", "PodDisruptionBudget"), Err: apierrors.NewInternalError(errors.New("etcd")), Times: -1},
			args:  []string{"plan", "a"}, want: []string{"list poddisruptionbudgets: ", "etcd"},
		},
		"a broken connection": {
			fault: fake.Fault{Match: requests("", "Node"), Err: errors.New("no route to host"), Times: -1}, args: []string{"plan", "a"},
			want: []string{"cannot be reached", "check the kubeconfig"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "a")
			cordoned := newNode("cordoned")
			cordoned.Labels, cordoned.Spec.Unschedulable = nil, true
			s.create(cordoned)
			s.store.Inject(c.fault)
			if c.fault.Match == nil {
				s = newStage(t, "a")
			}
			got := s.do(c.args...)
			require.Equal(t, exitFailed, got.code)
			for _, want := range c.want {
				require.Contains(t, got.stderr, want)
			}
			require.Empty(t, got.stdout)
		})
	}
}

func TestErrors_DaemonSetsThatCannotBeSeenAreTrusted(t *testing.T) {
	t.Parallel()
	s := newStage(t, "a")
	s.pods(newPod("a", "agent", owned("apps/v1", "DaemonSet", "agent")))
	require.Equal(t, exitBlocked, s.do("plan", "a").code, "there is no such DaemonSet")
	s.store.Inject(fake.Fault{Match: requests("list", "DaemonSet"), Err: forbidden("daemonsets"), Times: -1})
	got := s.do("plan", "a")
	require.Equal(t, exitDone, got.code, got.stderr)
	require.Contains(t, got.stdout, "1 stay")
}

func TestErrors_AServerThatIsNotThere(t *testing.T) {
	t.Parallel()
	var stdout, stderr screen
	p := (&stage{}).program(&stdout, &stderr)
	p.connect = func(options) (*rest.Config, error) {
		return &rest.Config{Host: "http://127.0.0.1:1"}, nil // no process listens there
	}
	require.Equal(t, exitFailed, p.execute(t.Context(), []string{"run", "a"}))
	require.Contains(t, stderr.String(), "cannot be reached")
	require.Contains(t, stderr.String(), "connection refused")
}

func TestErrors_AKubeconfigThatIsNotThere(t *testing.T) {
	t.Parallel()
	var stdout, stderr screen
	require.Equal(t, exitFailed, execute([]string{"plan", "a", "--kubeconfig", "does/not/exist"}, &stdout, &stderr))
	require.Contains(t, stderr.String(), "--kubeconfig does/not/exist cannot be used")
}

func TestErrors_ANodeThatIsRefusedIsNotCalledReplaced(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer error
		want   string
	}{
		"another UID": {apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "",
			"testing value /metadata/uid failed", 0, false),
			"cordon node a: the node was replaced by another one of the same name"},
		"an invalid Node": {apierrors.NewInvalid(schema.GroupKind{Kind: "Node"}, "a",
			field.ErrorList{field.Forbidden(field.NewPath("spec", "podCIDRs"), "never")}),
			`cordon node a: patch nodes: Node "a" is invalid: spec.podCIDRs: Forbidden: never`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "a")
			s.store.Inject(fake.Fault{Match: requests("patch", "Node"), Err: c.answer, Times: -1})
			got := s.do("run", "a")
			require.Equal(t, exitFailed, got.code)
			require.Contains(t, got.stdout+got.stderr, c.want)
		})
	}
}

func TestErrors_ANodeThatCannotBeCordonedStopsTheDrain(t *testing.T) {
	t.Parallel()
	s := newStage(t, "a", "b")
	s.pods(newPod("a", "web-0"), newPod("b", "web-1"))
	s.store.Inject(fake.Fault{Match: fake.Match("patch", schema.GroupKind{Kind: "Node"}, "b"), Err: forbidden("nodes"), Times: -1})
	got := s.do("run", "a", "b")
	require.Equal(t, exitFailed, got.code)
	for _, want := range []string{"Failed: cordon node b: the right to patch nodes is missing", "a: waiting, 0 gone, 1 left, cordoned",
		"b: waiting, 0 gone, 1 left, not cordoned", "drainctl uncordon a\n"} {
		require.Contains(t, got.stdout+"\n", want)
	}
	require.Len(t, s.allPods(), 2)
}

// outage is a connection on which one path is not answered.
type outage struct {
	http.RoundTripper

	path string
}

func (o outage) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path == o.path {
		return nil, errors.New("no route to host")
	}
	return o.RoundTripper.RoundTrip(r)
}

func TestErrors_VolumesThatCannotBeWatchedAreNotWaitedFor(t *testing.T) {
	t.Parallel()
	s := newStage(t, "a")
	var stdout, stderr screen
	p := s.program(&stdout, &stderr)
	p.connect = func(options) (*rest.Config, error) {
		cfg := s.store.RESTConfig()
		cfg.Transport = outage{cfg.Transport, "/apis/storage.k8s.io/v1"}
		return cfg, nil
	}
	require.Equal(t, exitFailed, p.execute(t.Context(), []string{"run", "a", "--wait-volumes", "--timeout", "1m"}))
	require.Contains(t, stdout.String()+stderr.String(), "no route to host")
}

func TestErrors_TemporaryTroubleIsReported(t *testing.T) {
	t.Parallel()
	s := newStage(t, "a")
	node := s.node("a")
	s.pods(newPod("a", "web-0"))
	require.NoError(t, s.live.Patch(t.Context(), node, client.RawPatch(client.Merge.Type(), []byte(`{"spec":{"unschedulable":true}}`))))
	gets := 0
	s.store.Inject(fake.Fault{Match: func(r fake.Request) bool {
		if r.Verb == "get" && r.GVK.Kind == "Node" {
			gets++
		}
		return r.Verb == "get" && r.GVK.Kind == "Node" && gets == 2 // the first one is the plan's
	}, Err: errors.New("connection refused")})
	got := s.do("run", "a", "-o", "json")
	require.Equal(t, exitDone, got.code, got.stderr)
	changes, _ := stream(t, got.stdout)
	require.Len(t, eventsOf(changes, eventTrouble), 1)
	require.Contains(t, eventsOf(changes, eventTrouble)[0].Message, "connection refused")
}

func TestRights_MissingOnesAreNamedBeforeTheFirstCordon(t *testing.T) {
	t.Parallel()
	clientset := clientsetfake.NewClientset()
	var asked []string
	clientset.PrependReactor("create", "selfsubjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview)
		what := review.Spec.ResourceAttributes
		asked = append(asked, what.Verb+" "+what.Resource+"/"+what.Subresource)
		review.Status.Allowed = what.Subresource == "" && what.Group == ""
		return true, review, nil
	})
	o, err := parse([]string{"run", "a", "--disable-eviction"}, &screen{})
	require.NoError(t, err)
	s := &session{client: clientset, options: o}
	err = s.checkRights(t.Context())
	require.EqualError(t, err, "rights are missing: create pods/eviction; watch poddisruptionbudgets.policy; nothing was changed; "+
		"drainctl --print-rbac prints all that are needed")
	require.Equal(t, []string{"patch nodes/", "create pods/eviction", "watch pods/", "watch poddisruptionbudgets/", "delete pods/"}, asked)
}

func TestErrors_ANodeThatIsDeletedDuringTheDrain(t *testing.T) {
	t.Parallel()
	s := newStage(t, "a", "b")
	s.pods(numbered("a", "web", 2)...)
	s.budget("web", 2)
	out, interrupt, wait := s.start("run", "b", "a", "--wait", "-o", "json")
	s.until("the budget is in the way", func() bool { return strings.Contains(out.String(), `"since"`) })
	require.NoError(t, s.live.Delete(t.Context(), s.node("b")))
	interrupt()
	got := wait()
	require.Equal(t, exitInterrupted, got.code)
	_, end := stream(t, got.stdout)
	require.Nil(t, end.Nodes[0].Left, "b is gone")
	require.Contains(t, end.Nodes[0].Error, `there is no Node "b"`)
	require.Equal(t, 2, *end.Nodes[1].Left)
	require.Equal(t, "drainctl uncordon a", end.Uncordon)
}

func TestAKubeconfigThatIsNotThereIsNamed(t *testing.T) {
	dir := t.TempDir()
	nowhere, empty := filepath.Join(dir, "nope"), filepath.Join(dir, "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for files, want := range map[string]string{
		nowhere:               nowhere + " does not exist",
		empty:                 empty + " names no cluster",
		nowhere + ":" + empty: nowhere + " does not exist, " + empty + " names no cluster",
	} {
		t.Setenv("KUBECONFIG", files)
		_, err := connect(options{})
		require.ErrorContains(t, err, want)
		_, withContext := connect(options{context: "dev"})
		require.Error(t, withContext)
		if strings.Contains(want, "not exist") {
			require.ErrorContains(t, withContext, nowhere+" does not exist")
		}
		require.NotContains(t, err.Error(), "KUBERNETES_MASTER")
	}
}

// full is a disk without space.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestOutputThatIsLostIsAFailure(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"--print-rbac"}} {
		var stderr strings.Builder
		require.Equal(t, exitFailed, execute(args, full{}, &stderr), args)
		require.Equal(t, 1, strings.Count(stderr.String(), "no space left"), stderr.String())
	}
}
