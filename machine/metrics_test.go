package machine

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
)

func testKind() contract.Kind {
	return contract.Unstructured(schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "Machine"},
		contract.MachineV1Beta2())
}

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func TestTimeInPhasesIsCountedWhenItIsStoredAndOnce(t *testing.T) {
	at := func(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }
	// pass is one pass: what is read, what is decided, and whether that is stored or ends the Machine.
	type pass struct {
		at           int
		read, decide string
		since        int // when the object says that its phase changed; -1 when it does not
		stores, ends bool
		restart      bool // the process is a new one
		uid          types.UID
	}
	for name, tc := range map[string]struct {
		passes []pass
		want   string
	}{
		"every phase is stored": {[]pass{
			{at: 0, read: "", since: -1, decide: "Pending", stores: true}, {at: 5, read: "Pending", since: 0, decide: "Pending"},
			{at: 9, read: "Pending", since: 0, decide: "Running", stores: true}, {at: 20, read: "Running", since: 9, decide: "Deleting", ends: true},
		}, "Pending 9s, Running 11s, Deleting 0s"},
		"phases that were never stored alone count too": {[]pass{
			{at: 0, read: "", since: -1, decide: "Pending"}, {at: 1, read: "", since: -1, decide: "Provisioning"},
			{at: 3, read: "", since: -1, decide: "Running", stores: true}, {at: 7, read: "Running", since: 3, decide: "Deleting"},
			{at: 9, read: "Running", since: 3, decide: "Deleting", ends: true},
		}, "Pending 1s, Provisioning 2s, Running 4s, Deleting 2s"},
		"a new process goes by what is stored": {[]pass{
			{at: 0, read: "", since: -1, decide: "Pending", stores: true},
			{at: 9, read: "Pending", since: 0, decide: "Provisioning", stores: true, restart: true},
		}, "Pending 9s"},
		"what was not stored dies with the process, and nothing is counted twice": {[]pass{
			{at: 0, read: "", since: -1, decide: "Pending", stores: true}, {at: 5, read: "Pending", since: 0, decide: "Provisioning"},
			{at: 9, read: "Pending", since: 0, decide: "Provisioned", stores: true, restart: true},
		}, "Pending 9s"},
		"an unknown begin makes no time": {[]pass{
			{at: 0, read: "Pending", since: -1, decide: "Pending"}, {at: 9, read: "Pending", since: -1, decide: "Running", stores: true},
			{at: 10, read: "Running", since: -1, decide: "Failed", stores: true},
		}, "Running 1s"},
		"a write that failed is no news": {[]pass{
			{at: 0, read: "Pending", since: 0, decide: "Running"}, {at: 1, read: "Pending", since: 0, decide: "Running"},
			{at: 2, read: "Pending", since: 0, decide: "Running", stores: true}, {at: 3, read: "Running", since: 2, decide: "Running", stores: true},
		}, "Pending 0s"},
		"a detour that was not reported is none": {[]pass{
			{at: 0, read: "Running", since: 0, decide: "Updating"}, {at: 1, read: "Running", since: 0, decide: "Running", stores: true},
			{at: 2, read: "Running", since: 0, decide: "Updating"}, {at: 3, read: "Running", since: 0, decide: "Failed"},
			{at: 5, read: "Running", since: 0, decide: "Updating", stores: true},
			{at: 9, read: "Updating", since: 5, decide: "Running", stores: true},
		}, "Running 2s, Updating 7s"},
		"another process wrote": {[]pass{
			{at: 0, read: "Running", since: 0, decide: "Running"}, {at: 9, read: "Running", since: 8, decide: "Failed", stores: true},
			{at: 10, read: "Running", since: 10, decide: "Failed", stores: true},
		}, "Running 1s, Running 0s"},
		"another Machine of the same name": {[]pass{
			{at: 0, read: "Running", since: 0, decide: "Running"}, {at: 9, read: "", since: -1, decide: "Pending", stores: true, uid: "2"},
			{at: 10, read: "Pending", since: 9, decide: "Running", stores: true, uid: "2"},
		}, "Pending 1s"},
		"clocks that differ": {[]pass{{at: 0, read: "Running", since: 5, decide: "Failed", stores: true}}, "Running 0s"},
		"a shape without a place for the phase": {[]pass{
			{at: 0, read: "", since: -1, decide: "Running", stores: true}, {at: 5, read: "", since: -1, decide: "Running", stores: true},
			{at: 9, read: "", since: -1, decide: "Failed", stores: true},
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var track phaseTrack
			var got []string
			for _, p := range tc.passes {
				if p.restart {
					track = phaseTrack{}
				}
				read := phaseAt{phase: p.read}
				if p.since >= 0 {
					read.at = at(p.since)
				}
				track = track.decided(p.uid, read, p.decide, at(p.at))
				var left []phaseTime
				if p.ends {
					left = track.left(at(p.at))
				} else if p.stores {
					track, left = track.told(at(p.at))
				}
				for _, l := range left {
					if l.took >= 0 {
						got = append(got, l.phase+" "+l.took.String())
					}
				}
			}
			if diff := cmp.Diff(tc.want, strings.Join(got, ", ")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAWayThroughPhasesIsBounded(t *testing.T) {
	var track phaseTrack
	for i := range 1000 {
		track = track.decided("1", phaseAt{"Pending", noon}, fmt.Sprint("Phase", i), noon)
	}
	require.Len(t, track.path, maxPath)
}

func TestLabelsThatObjectsFillAreBounded(t *testing.T) {
	var values labelValues
	long := strings.Repeat("x", maxLabelLength+1)
	for value, want := range map[string]string{"": "none", "Running": "Running", long: "other", "\xff": "other"} {
		require.Equal(t, want, values.admit(value))
	}
	counts := map[string]int{"Running": 2, "": 3, long: 1, "\xff": 1}
	for i := range 100 {
		counts[fmt.Sprintf("Phase%03d", i)] = 1
	}
	sums := values.sum(counts)
	total := 0
	for _, n := range sums {
		total += n
	}
	require.Equal(t, 107, total, "nothing is lost")
	require.Len(t, sums, maxLabelValues+1)
	require.Equal(t, 2, sums["Running"])
	require.Equal(t, 1, sums["Phase000"], "those that find room are the first by name")
	require.Equal(t, 102-maxLabelValues+2, sums["other"])
	require.Equal(t, 0, values.sum(nil)["Running"], "what was seen once stays, at zero")
}

func TestTheProviderIsTheInfrastructureOrTheSchemeOfTheProviderID(t *testing.T) {
	infrastructure := contract.MachineState{
		MachineSpec: contract.MachineSpec{Infrastructure: contract.Ref{Kind: "AWSMachine", Name: "m1"}, ProviderID: "aws:///eu-1/i-1"}}
	require.Equal(t, "AWSMachine", providerOf(&infrastructure))
	class := contract.MachineState{
		MachineSpec: contract.MachineSpec{Provider: contract.ProviderSpec{Class: contract.Ref{Kind: "MachineClass", Name: "c1"}},
			ProviderID: "aws:///eu-1/i-1"}}
	require.Equal(t, "aws", providerOf(&class))
	oracle := contract.MachineState{MachineSpec: contract.MachineSpec{ProviderID: "ocid1.instance.oc1.phx.abc"}}
	require.Empty(t, providerOf(&oracle), "it would name an object")
}

func TestASteadyPassIsObservedWithoutAllocations(t *testing.T) {
	s, ctx, r := &Scope{env: &Reconciler{}, memory: &recollection{}, before: phaseAt{"Running", noon}}, t.Context(), &Reconciler{}
	s.State.Phase = "Running"
	for name, o := range map[string]*Metrics{"nil": nil, "metrics": NewMetrics(MetricsOptions{})} {
		require.Zero(t, testing.AllocsPerRun(100, func() {
			o.begin(ctx, r)
			o.wrote(s, nil)
		}), name)
	}
}
