package main

import (
	"maps"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/examples/manager/api"
)

// combinationVariable names the flags of one combination for a process that runs it: the metrics of a manager are those of its process.
const combinationVariable = "MACHINIST_RIGHTS_OF"

// combinations are the flags with which the help text and the documentation run the manager, and those of the values that they name.
func combinations(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	apart := regexp.MustCompile(`--print-\S+|--kubeconfig \S+|--config \S+|-v \d`)
	all := map[string]bool{
		"--driver=kwok --driver-as=inframachine":                                   true,
		"--api-group=machine.sapcloud.io --driver=kwok --driver-credentials=class": true,
	}
	for _, found := range regexp.MustCompile(`(?m)go run ./examples/manager((?: --?[a-z]\S*| \d\b| \S+\.yaml)*)`).FindAllStringSubmatch(usage+string(text), -1) {
		flags := strings.Join(strings.Fields(apart.ReplaceAllString(found[1], "")), " ")
		if all[flags] = true; strings.Contains(flags, string(api.Kubermatic)) { // "or machine.sapcloud.io"
			all[strings.Replace(flags, string(api.Kubermatic), string(api.Gardener), 1)] = true
		}
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(flags string) bool { return strings.Contains(flags, "--help") })
}

// TestTheCombinationsOfTheHelpHaveExactlyTheirRights runs the manager with the flags of each combination as a user who has what it prints:
// nothing is denied, and nothing that is granted stays unused but what rarely is.
func TestTheCombinationsOfTheHelpHaveExactlyTheirRights(t *testing.T) {
	if flags, one := os.LookupEnv(combinationVariable); one {
		plays(t, flags)
		return
	}
	t.Parallel()
	all := combinations(t)
	require.GreaterOrEqual(t, len(all), 12, "%v", all)
	for _, flags := range all {
		t.Run(flags, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestTheCombinationsOfTheHelpHaveExactlyTheirRights$", "-test.v")
			cmd.Env = append(os.Environ(), combinationVariable+"= "+flags)
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
		})
	}
}

// used is a user with some rules, whose requests are judged by them.
type used struct {
	http.RoundTripper
	granted []grant

	mu     sync.Mutex
	used   map[grant]bool
	denied map[string]bool
}

// grant is a right in the whole cluster, as all of the combinations are.
type grant struct{ verb, group, resource, name string }

func (g grant) String() string {
	return strings.TrimSpace(g.verb + " " + schema.GroupResource{Group: g.group, Resource: g.resource}.String() + " " + g.name)
}

func grantsOf(rules []rbacv1.PolicyRule) []grant {
	var all []grant
	for _, rule := range contract.MergePolicyRules(rules) {
		for _, resource := range rule.Resources {
			for _, name := range orAny(rule.ResourceNames) {
				for _, verb := range rule.Verbs {
					all = append(all, grant{verb, rule.APIGroups[0], resource, name})
				}
			}
		}
	}
	return all
}

var requestPath = regexp.MustCompile(`^/(?:api|apis/([^/]+))/v[^/]+/(?:namespaces/[^/]+/)?([^/]+)(?:/([^/]+))?(?:/([^/]+))?$`)

// asked returns the rights that a request needs, none for one that everybody may make. A watch may stream the list that is first, which
// other API servers are asked for, and an apply creates what does not exist.
func asked(req *http.Request) []grant {
	match := requestPath.FindStringSubmatch(req.URL.Path)
	if len(match) == 0 || match[1] == "authorization.k8s.io" {
		return nil
	}
	g := grant{group: match[1], resource: match[2], name: match[3]}
	if match[4] != "" {
		g.resource += "/" + match[4]
	}
	switch {
	case req.Method == http.MethodGet && strings.Contains(req.URL.RawQuery, "watch="):
		g.verb = "watch"
	case req.Method == http.MethodGet && g.name == "":
		g.verb = "list"
	default:
		g.verb = map[string]string{http.MethodGet: "get", http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch",
			http.MethodDelete: "delete"}[req.Method]
	}
	all, also := []grant{g}, g
	switch {
	case strings.Contains(req.URL.RawQuery, "sendInitialEvents=true"):
		also.verb = "list"
		all = append(all, also)
	case strings.HasPrefix(req.Header.Get("Content-Type"), string(types.ApplyYAMLPatchType)):
		also.verb = "create"
		all = append(all, also)
	}
	return all
}

// cloudToken is the token of the driver, which is another user.
const cloudToken = "cloud-token"

func (u *used) RoundTrip(req *http.Request) (*http.Response, error) {
	denied := false
	if req.Header.Get("Authorization") == "Bearer "+cloudToken {
		return u.RoundTripper.RoundTrip(req)
	}
	for _, wants := range asked(req) {
		denied = !u.allows(wants) || denied
	}
	if !denied {
		return u.RoundTripper.RoundTrip(req)
	}
	return &http.Response{
		Status: "403 Forbidden", StatusCode: http.StatusForbidden, Request: req, Header: http.Header{}, Body: http.NoBody,
	}, nil
}

func (u *used) allows(wants grant) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	allowed := false
	for _, g := range u.granted {
		if g.verb == wants.verb && g.group == wants.group && (g.resource == wants.resource || g.resource == rbacv1.ResourceAll) &&
			(g.name == wants.name || g.name == "") {
			allowed, u.used[g] = true, true
		}
	}
	if !allowed {
		u.denied[wants.String()] = true
	}
	return allowed
}

// rarely are rights that only a mishap uses, which tests of the packages and, on a real control plane, of examples/lab make happen.
func rarely(o settings) map[string]string {
	all := map[string]string{
		"get nodes":                     "to confirm that a Node is gone which others have deleted",
		"get machines.cluster.x-k8s.io": "to see whose a Machine is that has the name of another",
		"delete pods":                   "to shorten the grace period of pods whose Node does not answer",
		"patch events.events.k8s.io":    "for an event that is repeated",
		"get clusters.cluster.x-k8s.io": "to confirm that a Cluster is gone",
		"get customresourcedefinitions.apiextensions.k8s.io": "to confirm that the kind of a reference is gone",
	}
	if o.Driver.HasCredentials() {
		all["delete nodes"] = "for a Node that the driver, another user, has not deleted before"
	}
	if o.Workload.Enabled { // the test has no API server that is elsewhere
		for _, right := range []string{"list machinedrainrules.cluster.x-k8s.io", "watch machinedrainrules.cluster.x-k8s.io",
			"list *.controlplane.cluster.x-k8s.io", "watch *.controlplane.cluster.x-k8s.io", "create events.events.k8s.io"} {
			all[right] = "for the drain of a Node that is elsewhere"
		}
	}
	return all
}

// plays runs the manager with some flags, in a process of its own, and judges the rights that it has.
func plays(t *testing.T, flags string) {
	t.Helper()
	w := newRightsWorld(t, strings.Fields(flags)...)
	w.shared()
	for _, scene := range []struct {
		wanted bool
		plays  func()
	}{
		{w.o.Workload.Enabled, w.clusterIsAway}, {!w.o.Workload.Enabled, w.machineLives}, {w.o.Kinds.MachineSets, w.setLives},
		{w.o.Kinds.MachineHealthChecks, w.machineFails}, {w.o.Kinds.MachinePools, w.poolLives},
	} {
		if scene.wanted {
			scene.plays()
		}
	}
	w.stop()
	w.user.mu.Lock()
	defer w.user.mu.Unlock()
	require.Empty(t, slices.Sorted(maps.Keys(w.user.denied)), "used and not granted")
	var unused []string
	for _, g := range w.user.granted {
		if !w.user.used[g] && rarely(w.o)[g.String()] == "" {
			unused = append(unused, g.String())
		}
	}
	require.Empty(t, unused, "granted and not used")
}
