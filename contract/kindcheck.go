package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Forgotten is a member of MachineState that a kind does not keep, because one of its two functions leaves it out, or its encoding does.
type Forgotten struct {
	// Member is its name: "Node.UID".
	Member string
	// Need says how much depends on it: with NeedMust no machine is safe, with NeedShould work is done again or limits are not
	// reached, and with NeedOptional something is not shown.
	Need Need
	// Breaks is what does not work without it.
	Breaks string
}

// String returns all of it in one line.
func (f Forgotten) String() string {
	return fmt.Sprintf("%s is not kept, so %s: have the contract.Kind write and read it", f.Member, f.Breaks)
}

// CheckKind writes a state to a new object of a kind, encodes and decodes it, reads it back, and returns what is missing, in the order of
// MachineState. It makes no request. A test of the embedder asks it for what is NeedMust; which of the rest matters depends on the
// embedder. A ProviderID that read makes of something else is missing here, and rightly so.
//
// The error says that the object, which has no content but this, could not be written, encoded or read.
func CheckKind(kind Kind) ([]Forgotten, error) {
	if kind.New == nil || kind.Adapter == nil {
		return nil, errors.New("the contract.Kind needs New and an Adapter")
	}
	obj := kind.New()
	obj.SetNamespace("probe")
	obj.SetName("probe")
	obj.SetUID("probe")
	obj.SetDeletionTimestamp(&metav1.Time{Time: probeTime()})
	if err := kind.Adapter.Write(obj, probeUpdate()); err != nil {
		return nil, err
	}
	stored := kind.New()
	encoded, err := json.Marshal(obj)
	if err == nil {
		err = json.Unmarshal(encoded, stored)
	}
	if err != nil {
		return nil, fmt.Errorf("encode and decode %T: %w", obj, err)
	}
	var got MachineState
	if err := kind.Adapter.Read(stored, &got); err != nil {
		return nil, err
	}
	return forgottenIn(&got), nil
}

// probeNode is the UID of the Node in a probe.
const probeNode = types.UID("probe-uid")

func probeTime() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

func probeUpdate() MachineUpdate {
	at := probeTime()
	u := MachineUpdate{
		ProviderID: SetTo("probe://probe/probe"), DataSecretName: SetTo("probe"), Phase: SetTo("Running"),
		Node: SetTo(NodeRef{Name: "probe", UID: probeNode}), BootstrapReady: SetTo(true), InfrastructureReady: SetTo(true),
		Addresses: SetTo([]Address{{Type: "Hostname", Address: "probe"}}), FailureDomain: SetTo("probe"), ObservedGeneration: SetTo(int64(1)),
		LastUpdated: SetTo(at), PreDrainStarted: SetTo(at), DrainStarted: SetTo(at), VolumeDetachStarted: SetTo(at), PreTerminateStarted: SetTo(at),
		DrainedNode: SetTo(probeNode), VolumesDetachedNode: SetTo(probeNode), FailureReason: SetTo("Probe"), FailureMessage: SetTo("probe"),
		CertificatesExpire: SetTo(at),
		Conditions: []metav1.Condition{{Type: "Probe", Status: metav1.ConditionTrue, Reason: "Probe", Message: "probe",
			LastTransitionTime: metav1.NewTime(at)}},
	}
	u.Finalizers = SetTo([]string{"example.com/probe"})
	u.OwnerReferences = SetTo([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "probe", UID: "probe"}})
	u.Labels = map[string]Change[string]{"example.com/probe": SetTo("probe")}
	u.Annotations = map[string]Change[string]{"example.com/probe": SetTo("probe")}
	return u
}

// forgottenIn compares what was read with what was written.
func forgottenIn(s *MachineState) []Forgotten {
	at := probeTime()
	const metadata = "(Metadata.From, MetadataUpdate.ApplyTo)"
	all := []struct {
		keeps  bool
		member string
		need   Need
		breaks string
	}{
		{s.Key.Name != "" && s.Key.Namespace != "", "Key", NeedMust, "no Machine can be told from another " + metadata},
		{s.UID != "", "UID", NeedMust, "objects of a Machine that was made anew are taken for its own " + metadata},
		{!s.Deleting.IsZero(), "Deleting", NeedMust, "no deletion is noticed " + metadata},
		{slices.Contains(s.Finalizers, "example.com/probe"), "Finalizers", NeedMust,
			"a Machine goes at once and leaves its machine behind " + metadata},
		{len(s.OwnerReferences) == 1, "OwnerReferences", NeedMust, "owners are written over " + metadata},
		{s.Labels["example.com/probe"] != "", "Labels", NeedMust, "it is in no Cluster " + metadata},
		{s.Annotations["example.com/probe"] != "", "Annotations", NeedMust, "hooks, pauses and excluded drains are not seen " + metadata},
		{s.ProviderID != "", "ProviderID", NeedShould, "no Node is found, drained or deleted"},
		{s.DataSecretName.Found(), "DataSecretName", NeedShould, "infrastructure that waits for bootstrap data waits for ever"},
		{s.Phase != "", "Phase", NeedOptional, "no phase is shown"},
		{s.Node.Name != "", "Node.Name", NeedMust, "its Node is neither drained nor deleted"},
		{s.Node.UID == probeNode, "Node.UID", NeedMust, "its Node is neither drained nor deleted"},
		{s.BootstrapReady.Or(false), "BootstrapReady", NeedOptional, "a phase may go back"},
		{s.InfrastructureReady.Or(false), "InfrastructureReady", NeedOptional, "a phase may go back"},
		{len(s.Addresses) == 1, "Addresses", NeedOptional, "no addresses are shown"},
		{s.FailureDomain != "", "FailureDomain", NeedOptional, "no failure domain is shown"},
		{slices.ContainsFunc(s.Conditions, func(c metav1.Condition) bool { return c.Type == "Probe" && c.Status == metav1.ConditionTrue }),
			"Conditions", NeedShould, "nothing says what a Machine waits for"},
		{s.ObservedGeneration == 1, "ObservedGeneration", NeedOptional, "nobody can tell an old status"},
		{s.LastUpdated.Equal(at), "LastUpdated", NeedOptional, "times in phases are not counted after a restart"},
		{s.PreDrainStarted.Equal(at), "PreDrainStarted", NeedShould, "the limit of pre-drain hooks is never reached"},
		{s.DrainStarted.Equal(at), "DrainStarted", NeedMust, "its Node is neither drained nor deleted"},
		{s.VolumeDetachStarted.Equal(at), "VolumeDetachStarted", NeedShould, "the limit of the wait for volumes is never reached"},
		{s.PreTerminateStarted.Equal(at), "PreTerminateStarted", NeedShould, "the limit of pre-terminate hooks is never reached"},
		{s.DrainedNode == probeNode, "DrainedNode", NeedShould, "a Node is drained again in each pass"},
		{s.VolumesDetachedNode == probeNode, "VolumesDetachedNode", NeedShould, "volumes are waited for again in each pass"},
		{s.FailureReason != "" && s.FailureMessage != "", "FailureReason", NeedOptional, "no terminal failure is shown"},
		{s.CertificatesExpire.Equal(at), "CertificatesExpire", NeedOptional, "no expiry of certificates is shown"},
	}
	var missing []Forgotten
	for _, m := range all {
		if !m.keeps {
			missing = append(missing, Forgotten{m.member, m.need, m.breaks})
		}
	}
	return missing
}
