package kubectl

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/machinist-dev/machinist/drain"
)

// scenes is how many Nodes the random test looks at, with 1 to 6 pods each.
const scenes = 4000

// TestRules is the acceptance of this package: kubectl's own code is the judge.
func TestRules(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	hit := map[string]int{}
	synctest.Test(t, func(t *testing.T) { // inside, kubectl's clock stands still
		input := make([]byte, 200)
		for range scenes {
			for i := range input {
				input[i] = byte(random.Uint32())
			}
			compare(t, draw(&bits{rest: input}, time.Now()), hit)
		}
	})
	t.Logf("%v", hit)
	for _, class := range classes() {
		if hit[class] < 10 { // expected are 50 at least, so this is not left to chance
			t.Errorf("%q was hit %d times in %d scenes: the generator has to make more of it", class, hit[class], scenes)
		}
		delete(hit, class)
	}
	if len(hit) > 0 {
		t.Errorf("verdicts that classes() does not list: %v", hit)
	}
}

// classes are all verdicts that there are: action, reason, and the first words about it.
func classes() []string {
	return []string{
		"Evict Evictable", "Evict Finished", "Wait Terminating",
		"Ignore NotSelected", "Ignore StuckTerminating", "Ignore MirrorPod", "Ignore DaemonSetPod", "Ignore PodFilter",
		"Deny RuleFailed", "Deny Orphaned", "Deny DaemonSetPod", "Deny LocalData", "Deny Unmanaged", "Deny PodFilter",
		"Evict a finished DaemonSet pod",
		"warning kept: ignoring DaemonSet-managed Pods", "warning kept: deleting Pods that declare no controller",
		"warning kept: mind the gap", "warning kept: left alone by my filter",
		"warning kubectl loses: deleting Pods with local storage", "warning kubectl loses: daemonsets.apps \"missing\" not found",
		"warning kubectl loses: deleting Pods that declare no controller", "warning kubectl loses: mind the gap",
	}
}

// compare holds our verdicts about a scene against kubectl's: pod by pod, and then all of them for the order.
func compare(t *testing.T, s scene, hit map[string]int) {
	t.Helper()
	before := make([]*corev1.Pod, 0, len(s.pods))
	for _, pod := range s.pods {
		before = append(before, pod.DeepCopy())
	}
	rules := Rules(s.options)
	for _, pod := range s.pods {
		comparePod(t, &s, pod, drain.Decide(pod, rules), hit)
	}
	plan := drain.Planner{Rules: rules}.Plan([]drain.NodePods{{Node: oracleNode, Pods: s.pods}}, drain.Facts{})
	theirs := askKubectl(&s.options, s.selector, s.pods...)
	var deletes []string
	denied := map[string][]string{}
	for _, d := range plan.Decisions {
		name := drain.RefOf(d.Pod).String()
		switch d.Action {
		case drain.Deny:
			denied[d.Message] = append(denied[d.Message], name)
		case drain.Evict, drain.Wait:
			deletes = append(deletes, name)
		default:
		}
	}
	var errs []string
	for message, names := range denied {
		errs = append(errs, message+": "+strings.Join(names, ", "))
	}
	slices.Sort(errs)
	slices.Sort(theirs.errors) // kubectl prints them in the order of a map
	got := opinion{deletes: deletes, errors: errs, warnings: theirs.warnings}
	require.Empty(t, cmp.Diff(theirs, got, cmp.AllowUnexported(opinion{}), cmpopts.EquateEmpty()), "the Node as a whole (-kubectl +ours)")
	require.Equal(t, before, s.pods, "pods were changed")
}

func comparePod(t *testing.T, s *scene, pod *corev1.Pod, ours drain.Verdict, hit map[string]int) {
	t.Helper()
	name := drain.RefOf(pod).String()
	theirs := askKubectl(&s.options, s.selector, pod)

	// A pod that is terminating already is one that kubectl evicts once more, and that we wait for.
	goes := ours.Action == drain.Evict || ours.Action == drain.Wait && ours.Reason == drain.ReasonTerminating
	got := opinion{warnings: theirs.warnings}
	if goes {
		got.deletes = []string{name}
	}
	if ours.Action == drain.Deny {
		got.errors = []string{ours.Message + ": " + name}
	}
	require.Empty(t, cmp.Diff(theirs, got, cmp.AllowUnexported(opinion{}), cmpopts.EquateEmpty()),
		"%s got %+v (-kubectl +ours)\npod: %+v\noptions: %+v", name, ours, pod, s.options)

	hit[string(ours.Action)+" "+string(ours.Reason)]++
	if owner := metaController(pod); goes && owner == "DaemonSet" && ours.Reason == drain.ReasonFinished {
		hit["Evict a finished DaemonSet pod"]++
	}
	compareWarnings(t, s, pod, ours, warningOf(theirs, pod), hit)
}

// compareWarnings wants kubectl's warning to be our last one, and all others to be warnings that kubectl's filters give
// and overwrite.
func compareWarnings(t *testing.T, s *scene, pod *corev1.Pod, ours drain.Verdict, theirs string, hit map[string]int) {
	t.Helper()
	if theirs != "" {
		hit["warning kept: "+theirs]++
	}
	if ours.Action == drain.Deny || ours.Action == drain.Ignore { // it stays: what was said about its going does not matter
		require.Equal(t, theirs, strings.Join(ours.Warnings, "; "), "the warnings of kubectl and ours about %s", pod.Name)
		return
	}
	if theirs != "" {
		require.NotEmpty(t, ours.Warnings)
		require.Equal(t, theirs, ours.Warnings[len(ours.Warnings)-1], "the last warning about %s", pod.Name)
	}
	want := warningsOneByOne(s, pod)
	require.Empty(t, cmp.Diff(want, ours.Warnings, cmpopts.EquateEmpty()), "(-kubectl's filters one by one +ours) pod: %+v", pod)
	for _, warning := range want {
		if warning != theirs {
			hit["warning kubectl loses: "+warning]++
		}
	}
}

// warningsOneByOne gets out of kubectl what it would warn of if its filters did not overwrite each other: what becomes an
// error without the flag that allows it is a warning with the flag, and the last filter's warning is heard.
func warningsOneByOne(s *scene, pod *corev1.Pod) []string {
	var warnings []string
	because := func(change func(*Options), as map[string]string) {
		o := s.options
		o.AdditionalFilters = nil
		change(&o)
		for _, err := range askKubectl(&o, s.selector, pod).errors {
			text := strings.TrimSuffix(strings.TrimPrefix(err, "cannot delete "), ": "+drain.RefOf(pod).String())
			if warning := as[text]; warning != "" {
				text = warning
			}
			warnings = append(warnings, text)
		}
	}
	unmanaged := map[string]string{
		"Pods that declare no controller (use --force to override)": "deleting Pods that declare no controller",
	}
	local := map[string]string{
		"Pods with local storage (use --delete-emptydir-data to override)": "deleting Pods with local storage",
	}
	orphaned := metaController(pod) == "DaemonSet" // an earlier filter than that of local storage
	if orphaned {
		because(func(o *Options) { o.Force, o.DeleteEmptyDirData = false, true }, unmanaged)
	}
	because(func(o *Options) { o.Force, o.DeleteEmptyDirData = true, false }, local)
	if !orphaned {
		because(func(o *Options) { o.Force, o.DeleteEmptyDirData = false, true }, unmanaged)
	}
	for i, f := range s.options.AdditionalFilters {
		o := s.options
		o.AdditionalFilters = s.options.AdditionalFilters[i : i+1]
		if status := f(*pod); status.Message != "" {
			if warning := warningOf(askKubectl(&o, s.selector, pod), pod); warning == status.Message {
				warnings = append(warnings, warning)
			}
		}
	}
	return warnings
}

func metaController(pod *corev1.Pod) string {
	for _, ref := range pod.OwnerReferences {
		if ref.Controller != nil && *ref.Controller {
			if ref.APIVersion == "apps/v1" {
				return ref.Kind
			}
			return ""
		}
	}
	return ""
}

func FuzzRules(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("a pod without anything"))
	for seed := range uint64(20) {
		input := make([]byte, 120)
		random := rand.New(rand.NewPCG(seed, 1))
		for i := range input {
			input[i] = byte(random.Uint32())
		}
		f.Add(input)
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		synctest.Test(t, func(t *testing.T) {
			compare(t, draw(&bits{rest: input}, time.Now()), map[string]int{})
		})
	})
}
