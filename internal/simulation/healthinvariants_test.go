package simulation

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine/healthcheck"
	"github.com/machinist-dev/machinist/machine/remediation"
)

func TestALimitIsRoundedDown(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		limit       any
		total, most int
	}{
		{nil, 3, 3}, {int64(2), 5, 2}, {"40%", 2, 0}, {"40%", 3, 1}, {"80%", 4, 3}, {"100%", 4, 4}, {"[1-2]", 9, 2}, {"[0-5]", 1, 5},
	} {
		obj := fake.MachineHealthCheck(CheckName, nil, time.Minute)
		for name, limit := range (&check{limit: test.limit}).triggers() {
			fake.WithField(limit, "spec", "remediation", "triggerIf", name)(obj)
		}
		require.Equal(t, test.most, mostIn(obj, test.total), "%v of %d", test.limit, test.total)
	}
}

// checked returns a Machine of a check, and its Node.
func checked(name, zone string, status corev1.ConditionStatus, at time.Time) (m, node *unstructured.Unstructured) {
	m = fake.Machine(name, fake.WithField("id://"+name, "spec", "providerID"), fake.WithField(name, "status", "nodeRef", "name"))
	m.SetUID(types.UID(name))
	m.SetLabels(map[string]string{contract.ClusterNameLabel: "demo"})
	made := fake.Node(name, "id://"+name)
	made.Labels = map[string]string{corev1.LabelTopologyZone: zone}
	fake.SetNodeCondition(made, corev1.NodeReady, status, at)
	fields, _ := runtime.DefaultUnstructuredConverter.ToUnstructured(made)
	return m, &unstructured.Unstructured{Object: fields}
}

func TestAnOutageIsOfAllMachinesOrOfADomainBesideOthers(t *testing.T) {
	t.Parallel()
	begun := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	type one struct {
		zone   string
		status corev1.ConditionStatus
		after  time.Duration
	}
	of := func(domain string, others ...one) bool {
		machines, nodes := byKey{}, byKey{}
		for i, o := range others {
			m, node := checked(string(rune('a'+i)), o.zone, o.status, begun.Add(o.after))
			machines[types.NamespacedName{Name: m.GetName()}], nodes[types.NamespacedName{Name: m.GetName()}] = m, node
		}
		check := fake.MachineHealthCheck(CheckName, nil, time.Minute)
		check.SetNamespace(machines[types.NamespacedName{Name: "a"}].GetNamespace())
		return wentAtOnce(check, domain, machines, nodes)
	}
	gone, well := one{zone: "1", status: "Unknown"}, one{zone: "2", status: "True"}
	require.True(t, of("", gone, gone), "all at once")
	require.False(t, of("", gone, one{zone: "1", status: "Unknown", after: 11 * time.Minute}), "one by one")
	require.False(t, of("", gone), "a single Machine")
	require.True(t, of("1", gone, gone, well), "a domain")
	require.False(t, of("1", gone, gone), "a domain beside no other")
	require.False(t, of("1", gone, gone, one{zone: "1", status: "True"}, well), "some of one domain")
}

func TestAPlaceIsOpenUntilALaterMachineIsWell(t *testing.T) {
	t.Parallel()
	w := &World{
		inOrder: map[string][]*unstructured.Unstructured{}, clock: clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)),
		health: &health{fill: map[types.UID]*unstructured.Unstructured{}, found: map[[2]types.UID]bool{}},
	}
	check := fake.MachineHealthCheck(CheckName, nil, time.Minute)
	check.SetUID("check")
	h := w.health
	made := func(name string, after time.Duration) *unstructured.Unstructured {
		m, _ := checked(name, "", "True", w.Now())
		m.SetCreationTimestamp(metav1.NewTime(w.Now().Add(after)))
		m.SetNamespace(check.GetNamespace())
		return m
	}
	h.places = []place{{"a", "check", w.Now()}, {"b", "check", w.Now().Add(10 * time.Minute)}, {"c", "another", w.Now()}}
	require.Len(t, h.open(w, check), 2)
	h.fill["d"] = made("d", 5*time.Minute)
	require.Equal(t, []place{h.places[1]}, h.open(w, check), "it is too old for the second place")
	h.fill["e"] = made("e", 6*time.Minute)
	require.Len(t, h.open(w, check), 1, "a place is filled once")
	h.fill["f"] = made("f", 20*time.Minute)
	require.Empty(t, h.open(w, check))
	elsewhere := made("f", 20*time.Minute)
	elsewhere.SetNamespace("elsewhere")
	h.fill["f"] = elsewhere
	require.Len(t, h.open(w, check), 1, "the check has never selected it")
	m, node := checked("f", "", "True", w.Now())
	m.SetUID("f")
	m.SetNamespace(check.GetNamespace())
	of := func(obj *unstructured.Unstructured) byKey { return byKey{client.ObjectKeyFromObject(obj): obj} }
	h.finds(&pass{shown: check, machines: of(m), nodes: byKey{}})
	require.Len(t, h.open(w, check), 1, "it has no Node")
	h.finds(&pass{shown: check, machines: of(m), nodes: of(node)})
	require.Empty(t, h.open(w, check), "the check has found it well before a person took it away")
}

// People may remove a ledger between its write and the mark: what counts is what was stored.
func TestALedgerCountsAsItWasStoredLast(t *testing.T) {
	t.Parallel()
	h := &health{ledgers: map[types.UID]healthcheck.Ledger{}}
	write := func(text string) {
		check := fake.MachineHealthCheck(CheckName, nil, time.Minute)
		check.SetUID("check")
		check.SetAnnotations(map[string]string{healthcheck.LedgerAnnotation: text})
		h.observeCheck(check, false)
	}
	ledger := healthcheck.Ledger{Check: "check", InFlight: []healthcheck.Entry{{Machine: "a", Decided: true}, {Machine: "b"}}}
	write(ledger.String())
	require.Equal(t, ledger.InFlight, h.ledgers["check"].InFlight)
	h.places = []place{{machine: "a", check: "check"}}
	write("")
	require.Equal(t, ledger.InFlight, h.ledgers["check"].InFlight)
	require.Empty(t, h.places, "a check without its ledger has no places")
	write(healthcheck.Ledger{Check: "check"}.String())
	require.Empty(t, h.ledgers["check"].InFlight)
}

func TestCheckRefusesAgain(t *testing.T) {
	t.Parallel()
	check := fake.MachineHealthCheck(CheckName, nil, time.Minute)
	check.SetUID("check")
	p := &process{recorded: map[string]bool{}, over: map[string]bool{}}
	key := fmt.Sprintln(check.GetUID(), remediation.ReasonRemediationRestricted, "too many")
	p.recorded[key] = true
	stored := func(status metav1.ConditionStatus, message string) {
		condition := map[string]any{"type": contract.ConditionRemediationAllowed, "status": string(status), "message": message}
		require.NoError(t, unstructured.SetNestedSlice(check.Object, []any{condition}, "status", "conditions"))
		p.endsRefusals(check, false)
	}
	node := fake.Machine("gone")
	p.endsRefusals(node, true)
	require.Contains(t, p.recorded, key, "it has refused all the time")
	stored(metav1.ConditionTrue, "too many")
	p.endsRefusals(node, true)
	require.Contains(t, p.recorded, key, "it remediates others, and what it refused lasts")
	stored(metav1.ConditionTrue, "")
	require.Contains(t, p.recorded, key, "nothing else has changed")
	p.endsRefusals(node, true)
	require.NotContains(t, p.recorded, key)

	p.recorded[key] = true
	stored(metav1.ConditionTrue, "")
	stored(metav1.ConditionFalse, "too many")
	p.endsRefusals(node, true)
	require.Contains(t, p.recorded, key, "it refuses again, and that lasts")
}
