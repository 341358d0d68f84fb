package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/machinist-dev/machinist/fake"
)

func TestTheClusterRoleCanBeApplied(t *testing.T) {
	t.Parallel()
	rights := rightsOf(t, "--print-rbac")
	require.Equal(t, []string{"create"}, rights["/pods/eviction"])
	require.Contains(t, rights["infrastructure.cluster.x-k8s.io/*"], "delete")
	require.NotContains(t, rights, "/secrets", "bootstrap data is the provider's business")
	require.Equal(t, []string{"get", "list", "watch"}, rights["cluster.x-k8s.io/clusters"], "other controllers write them")
	require.Equal(t, []string{"list", "watch"}, rights["controlplane.cluster.x-k8s.io/*"], "other controllers write them")
	require.NotContains(t, rights, "coordination.k8s.io/leases", "there is no election")
}

func TestThePrintedRightsFollowTheFlags(t *testing.T) {
	t.Parallel()
	require.NotContains(t, rightsOf(t, "--print-rbac"), "cluster.x-k8s.io/machinepools")
	require.Contains(t, rightsOf(t, "--print-rbac", "--machinepools")["cluster.x-k8s.io/machines"], "create", "pools make Machines")
	own := rightsOf(t, "--print-rbac", "--machinepools", "--machinepool-group=machinist.dev")
	require.Contains(t, own, "machinist.dev/machinepools/status")
	require.NotContains(t, own, "cluster.x-k8s.io/machinepools")
	checks := rightsOf(t, "--print-rbac", "--machinehealthchecks", "--remediation-resources=cycles.example.com")
	require.Equal(t, []string{"patch"}, checks["cluster.x-k8s.io/machinehealthchecks/status"])
	require.ElementsMatch(t, []string{"create", "delete", "list", "watch"}, checks["example.com/cycles"])
	require.ElementsMatch(t, []string{"list", "watch"}, checks["example.com/cycletemplates"])
	far := rightsOf(t, "--print-rbac", "--workload-clusters")
	require.Equal(t, []string{"get", "list", "watch"}, far["/secrets"], "kubeconfigs")
	require.NotContains(t, far, "/nodes", "they are elsewhere")
	require.Contains(t, rightsOf(t, "--print-node-rbac", "--workload-clusters")["/nodes"], "delete")
	alone := rightsOf(t, "--print-rbac", "--clusters=never")
	require.NotContains(t, alone, "cluster.x-k8s.io/clusters")
	require.NotContains(t, alone, "controlplane.cluster.x-k8s.io/*")
	narrow := rightsOf(t, "--print-rbac", "--namespace=a,b", "--workload-clusters", "--driver=kwok", "--driver-as=inframachine")
	for _, place := range []string{"cluster.x-k8s.io/machines/status", "infrastructure.cluster.x-k8s.io/*", "/secrets",
		"controlplane.cluster.x-k8s.io/*"} {
		require.NotContains(t, narrow, place)
		require.NotEmpty(t, narrow["a: "+place], place)
		require.Equal(t, narrow["a: "+place], narrow["b: "+place])
	}
	require.Equal(t, []string{"get", "list"}, narrow["cluster.x-k8s.io/machines"], "the safety reads the owners of instances everywhere")
	require.Equal(t, []string{"list"}, narrow["infrastructure.cluster.x-k8s.io/kwokmachines"], "and these are owners too")
	require.Contains(t, narrow, "apiextensions.k8s.io/customresourcedefinitions")
	require.Contains(t, narrow, "events.k8s.io/events", "those of Nodes are in the namespace default")
	require.NotContains(t, rightsOf(t, "--print-rbac", "--namespace=a"), "cluster.x-k8s.io/machines")
	leads := rightsOf(t, "--print-rbac", "--leader-elect", "--leader-election-namespace=system")
	require.Equal(t, []string{"get", "update"}, leads["system: coordination.k8s.io/leases machinist-manager"],
		"the Lease of the flags, and no other")
	exact := rightsOf(t, "--print-rbac", "--provider-resources=awsmachines.infrastructure.cluster.x-k8s.io", "--control-plane-resources=")
	require.Contains(t, exact, "infrastructure.cluster.x-k8s.io/awsmachines")
	require.NotContains(t, exact, "bootstrap.cluster.x-k8s.io/*")
	require.NotContains(t, exact, "controlplane.cluster.x-k8s.io/*")
	strict := rightsOf(t, "--print-rbac", "--owner-references-enforced")
	require.Equal(t, []string{"update"}, strict["cluster.x-k8s.io/machines/finalizers"])
	require.NotContains(t, rightsOf(t, "--print-rbac"), "cluster.x-k8s.io/machines/finalizers")
}

// reviewer answers an API server's reviews of rights, and passes everything else on.
type reviewer struct {
	http.RoundTripper
	// answer decides; without one, no answer comes.
	answer func(asked authorizationv1.ResourceAttributes) authorizationv1.SubjectAccessReviewStatus
}

func (r reviewer) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Path != "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews" {
		return r.RoundTripper.RoundTrip(req)
	}
	if r.answer == nil {
		<-req.Context().Done()
		return nil, req.Context().Err()
	}
	review := authorizationv1.SelfSubjectAccessReview{}
	if err := json.NewDecoder(req.Body).Decode(&review); err != nil {
		return nil, err
	}
	review.Status = r.answer(*review.Spec.ResourceAttributes)
	body, err := json.Marshal(review)
	return &http.Response{
		Status: "201 Created", StatusCode: http.StatusCreated, Header: http.Header{"Content-Type": {"application/json"}}, Request: req,
		Body: io.NopCloser(bytes.NewReader(body)),
	}, err
}

func TestAManagerWithoutRightsNamesThemAndEnds(t *testing.T) {
	t.Parallel()
	type status = authorizationv1.SubjectAccessReviewStatus
	type asked = authorizationv1.ResourceAttributes
	const remedy = ": grant what the manager prints with --print-rbac and its other flags"
	none := func(asked) status { return status{} }
	for name, c := range map[string]struct {
		answer func(asked) status
		flags  []string
		want   string // of the error; empty: the manager is made
	}{
		"no right at all": {none, nil, "rights are missing: list, watch namespaces; "},
		"a bounded list":  {none, nil, " more resources" + remedy},
		"one right": {func(a asked) status {
			return status{Allowed: a.Subresource != "eviction"}
		}, nil, "rights are missing: create pods/eviction" + remedy},
		"the Lease": {func(a asked) status {
			return status{Allowed: a.Resource != "leases" || a.Namespace != "system" || a.Name == "" && a.Verb == "create"}
		}, []string{"--leader-elect", "--leader-election-namespace=system"},
			"get, update leases.coordination.k8s.io in namespace system" + remedy},
		"what is not served needs no rights": {func(a asked) status {
			return status{Allowed: a.Group != "cluster.x-k8s.io" || a.Resource == "machines"}
		}, nil, ""},
		"what is printed for a whole group may be granted in parts": {func(a asked) status {
			return status{Allowed: a.Resource != "*"}
		}, nil, ""},
		"metrics that nobody can read do not keep Machines waiting": {func(a asked) status {
			return status{Allowed: a.Resource != "tokenreviews" && a.Resource != "subjectaccessreviews"}
		}, nil, ""},
		"an authorizer that failed is no denial": {func(asked) status { return status{EvaluationError: "webhook is down"} }, nil, ""},
		"an authorizer that failed, and another one that denies": {func(asked) status {
			return status{Denied: true, EvaluationError: "webhook is down"}
		}, nil, "rights are missing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := fake.NewStore(fake.Options{})
			require.NoError(t, store.Client().Create(t.Context(), fake.CRD(fake.MachineGVK())))
			cfg := store.RESTConfig()
			cfg.Wrap(func(rt http.RoundTripper) http.RoundTripper { return reviewer{RoundTripper: rt, answer: c.answer} })
			o, err := parse(c.flags, io.Discard)
			require.NoError(t, err)
			has, err := o.lookAtServer(cfg)
			require.NoError(t, err)
			err = checkRights(t.Context(), cfg, o, has.lists)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestAServerThatDoesNotSayRightsIsTried(t *testing.T) {
	t.Parallel()
	cfg := fake.NewStore(fake.Options{}).RESTConfig()
	all := func(schema.GroupResource) bool { return true }
	require.NoError(t, checkRights(t.Context(), cfg, settings{}, all), "it does not know reviews")
	cfg.Wrap(func(rt http.RoundTripper) http.RoundTripper { return reviewer{RoundTripper: rt} })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, checkRights(ctx, cfg, settings{}, all), "it does not answer within the time that there is")
}

func TestAManagerIsNotMadeWithoutRights(t *testing.T) {
	t.Parallel()
	store := fake.NewStore(fake.Options{})
	require.NoError(t, store.Client().Create(t.Context(), fake.CRD(fake.MachineGVK())))
	cfg := store.RESTConfig()
	cfg.Wrap(func(rt http.RoundTripper) http.RoundTripper {
		return reviewer{RoundTripper: rt, answer: func(authorizationv1.ResourceAttributes) authorizationv1.SubjectAccessReviewStatus {
			return authorizationv1.SubjectAccessReviewStatus{}
		}}
	})
	_, err := newManager(t.Context(), cfg, given(t), logr.Discard())
	require.ErrorContains(t, err, "--print-rbac")
}

// rightsOf returns the verbs that are printed, by group and resource, after the namespace of a Role and before a name.
func rightsOf(t *testing.T, args ...string) map[string][]string {
	t.Helper()
	var out bytes.Buffer
	require.Equal(t, exitDone, execute(args, &out, io.Discard))
	rights := map[string][]string{}
	for document := range strings.SplitSeq(out.String(), "\n---\n") {
		var role rbacv1.Role // a ClusterRole has the same fields
		require.NoError(t, yaml.UnmarshalStrict([]byte(document), &role))
		require.Contains(t, []string{"Role", "ClusterRole"}, role.Kind)
		require.Contains(t, role.Name, "machinist-manager")
		where := ""
		if role.Kind == "Role" {
			where = role.Namespace + ": "
		}
		for _, rule := range role.Rules {
			for _, resource := range rule.Resources {
				rights[strings.TrimRight(where+rule.APIGroups[0]+"/"+resource+" "+strings.Join(rule.ResourceNames, ","), " ")] = rule.Verbs
			}
		}
	}
	return rights
}
