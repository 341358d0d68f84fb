package contract

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Forgotten is a member of MachineState, or of the state of another kind, such as MachineSetState, that a kind does not keep, because one
// of its two functions leaves it out, or its encoding does. What is only shown to people, such as counters, is not checked.
type Forgotten struct {
	// Member is its name: "Node.UID".
	Member string
	// Need says how much depends on it: with NeedMust no machine is safe, with NeedShould work is done again or limits are not
	// reached, and with NeedOptional something is less precise.
	Need Need
	// breaks is what does not work without it.
	breaks string
	// mend is what to do, empty for a kind.
	mend string
}

// String returns all of it in one line.
func (f Forgotten) String() string {
	return fmt.Sprintf("%s is not kept, so %s: %s", f.Member, f.breaks, cmp.Or(f.mend, "have the contract.Kind write and read it"))
}

// CheckKind writes a state to a new object of a kind, encodes and decodes it, reads it back, and returns what is missing, in the order of
// the kind's state. It makes no request. A test of the embedder asks it for what is NeedMust; which of the rest matters depends on the
// embedder. A ProviderID that read makes of something else is missing here, and rightly so. Spec and ClusterName of an InfraMachine, which
// its provider only reads, are not checked.
//
// The error says that the object, which has no content but this, could not be written, encoded or read.
func CheckKind[S, U any](kind KindOf[S, U]) ([]Forgotten, error) {
	switch kind := any(kind).(type) {
	case Kind:
		return checkMachineKind(kind)
	case MachineSetKind:
		return checkMachineSetKind(kind)
	case MachineDeploymentKind:
		return checkMachineDeploymentKind(kind)
	case MachinePoolKind:
		return checkMachinePoolKind(kind)
	case HealthCheckKind:
		return checkHealthCheckKind(kind)
	case InfraMachineKind:
		return checkInfraMachineKind(kind)
	default:
		return nil, fmt.Errorf("check %T: it is none of the kinds of this package", kind)
	}
}

func checkMachineKind(kind Kind) ([]Forgotten, error) {
	var got MachineState
	if err := probe(kind, probeUpdate(), &got); err != nil {
		return nil, err
	}
	return slices.Concat(metadataForgotten(&got.Metadata, "Machine"), forgottenIn(&got)), nil
}

func checkMachineSetKind(kind MachineSetKind) ([]Forgotten, error) {
	var got MachineSetState
	u := MachineSetUpdate{MetadataUpdate: probeMetadata(), ReplicatedUpdate: probeReplicated()}
	if err := probe(kind, u, &got); err != nil {
		return nil, err
	}
	return slices.Concat(metadataForgotten(&got.Metadata, "MachineSet"), replicatedForgotten(&got.ReplicatedState)), nil
}

func checkMachineDeploymentKind(kind MachineDeploymentKind) ([]Forgotten, error) {
	var got MachineDeploymentState
	u := MachineDeploymentUpdate{MetadataUpdate: probeMetadata(), ReplicatedUpdate: probeReplicated(),
		RolloutPaused: SetTo(true), RolloutAfter: SetTo(probeTime()), RollbackTo: SetTo[int64](1)}
	if err := probe(kind, u, &got); err != nil {
		return nil, err
	}
	return slices.Concat(metadataForgotten(&got.Metadata, "MachineDeployment"), missing([]member{
		{got.RolloutPaused, "RolloutPaused", NeedOptional, "it cannot be paused"},
		{got.RolloutAfter.Equal(probeTime()), "RolloutAfter", NeedOptional, "it cannot be restarted"},
		{got.RollbackTo.Or(0) == 1, "RollbackTo", NeedShould, "a rollback is not asked for, or asked for again in each pass"},
	}), replicatedForgotten(&got.ReplicatedState)), nil
}

func checkMachinePoolKind(kind MachinePoolKind) ([]Forgotten, error) {
	var got MachinePoolState
	ref := NodeRef{Name: "probe", UID: probeNode}
	u := MachinePoolUpdate{MetadataUpdate: probeMetadata(), ReplicatedUpdate: probeReplicated(),
		ProviderIDs: SetTo([]string{"probe://probe/probe"}), Nodes: SetTo([]NodeRef{ref}),
		BootstrapReady: SetTo(true), InfrastructureReady: SetTo(true)}
	if err := probe(kind, u, &got); err != nil {
		return nil, err
	}
	return slices.Concat(metadataForgotten(&got.Metadata, "MachinePool"), missing([]member{
		{slices.Equal(got.ProviderIDs, []string{"probe://probe/probe"}), "ProviderIDs", NeedMust,
			"instances that the infrastructure does not list for a moment are forgotten, and their Nodes with them"},
		{slices.Equal(got.Nodes, []NodeRef{ref}), "Nodes", NeedMust, "the Nodes of instances that are gone are neither drained nor deleted"},
		{got.BootstrapReady.Or(false), "BootstrapReady", NeedOptional, "a phase may go back"},
		{got.InfrastructureReady.Or(false), "InfrastructureReady", NeedOptional, "a phase may go back"},
	}), replicatedForgotten(&got.ReplicatedState)), nil
}

func checkHealthCheckKind(kind HealthCheckKind) ([]Forgotten, error) {
	var got HealthCheckState
	u := HealthCheckUpdate{MetadataUpdate: probeMetadata(), Targets: SetTo([]string{"probe"}), Conditions: probeConditions(),
		ObservedGeneration: SetTo[int64](1)}
	if err := probe(kind, u, &got); err != nil {
		return nil, err
	}
	return slices.Concat(metadataForgotten(&got.Metadata, "MachineHealthCheck"), missing([]member{
		{slices.Equal(got.Targets, []string{"probe"}), "Targets", NeedOptional, "nothing says which Machines are checked"},
		{hasProbe(got.Conditions), "Conditions", NeedShould, "nothing says whether Machines are remediated"},
		{got.ObservedGeneration == 1, "ObservedGeneration", NeedOptional, "an old status looks like a new one"},
	})), nil
}

// RefuseForgotten returns an error that names each member that is NeedMust, but those of except; nil when there is none.
func RefuseForgotten(forgotten []Forgotten, except ...string) error {
	var errs []error
	for _, f := range forgotten {
		if f.Need == NeedMust && !slices.Contains(except, f.Member) {
			errs = append(errs, errors.New(f.String()))
		}
	}
	return errors.Join(errs...)
}

// probe writes an update to a new object of a kind, encodes and decodes it, and reads it back.
func probe[S, U any](kind KindOf[S, U], u U, into *S) error {
	if kind.New == nil || kind.Adapter == nil {
		return errors.New("the kind needs New and an Adapter")
	}
	obj := kind.New()
	obj.SetNamespace("probe")
	obj.SetName("probe")
	obj.SetUID("probe")
	obj.SetDeletionTimestamp(&metav1.Time{Time: probeTime()})
	if err := kind.Adapter.Write(obj, u); err != nil {
		return err
	}
	stored := kind.New()
	encoded, err := json.Marshal(obj)
	if err == nil {
		err = json.Unmarshal(encoded, stored)
	}
	if err != nil {
		return fmt.Errorf("encode and decode %T: %w", obj, err)
	}
	return kind.Adapter.Read(stored, into)
}

// probeNode is the UID of the Node in a probe.
const probeNode = types.UID("probe-uid")

func probeTime() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

func probeUpdate() MachineUpdate {
	at := probeTime()
	u := MachineUpdate{
		ProviderID: SetTo("probe://probe/probe"), DataSecretName: SetTo("probe"),
		Node: SetTo(NodeRef{Name: "probe", UID: probeNode}), BootstrapReady: SetTo(true), InfrastructureReady: SetTo(true),
		FailureDomain: SetTo("probe"), ObservedGeneration: SetTo(int64(1)),
		LastUpdated: SetTo(at), DrainStarted: SetTo(at), VolumeDetachStarted: SetTo(at),
		FailureReason: SetTo("Probe"), FailureMessage: SetTo("probe"),
		Conditions: probeConditions(),
	}
	u.MetadataUpdate = probeMetadata()
	return u
}

func probeConditions() []metav1.Condition {
	return []metav1.Condition{{Type: "Probe", Status: metav1.ConditionTrue, Reason: "Probe", Message: "probe",
		LastTransitionTime: metav1.NewTime(probeTime())}}
}

func probeMetadata() MetadataUpdate {
	return MetadataUpdate{
		Finalizers:      SetTo([]string{"example.com/probe"}),
		OwnerReferences: SetTo([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "probe", UID: "probe"}}),
		Labels:          map[string]Change[string]{"example.com/probe": SetTo("probe")},
		Annotations:     map[string]Change[string]{"example.com/probe": SetTo("probe")},
	}
}

func probeReplicated() ReplicatedUpdate {
	return ReplicatedUpdate{
		Replicas: SetTo[int32](3), SelectorText: SetTo("probe=probe"), ObservedReplicas: SetTo[int32](3), Conditions: probeConditions(),
		ObservedGeneration: SetTo[int64](1),
	}
}

// member is one of a state, and whether a kind keeps it.
type member struct {
	keeps  bool
	name   string
	need   Need
	breaks string
}

// missing returns the members that a kind does not keep.
func missing(all []member) []Forgotten {
	var found []Forgotten
	for _, m := range all {
		if !m.keeps {
			found = append(found, Forgotten{Member: m.name, Need: m.need, breaks: m.breaks})
		}
	}
	return found
}

// metadataForgotten compares what was read of the metadata of what with what was written.
func metadataForgotten(s *Metadata, what string) []Forgotten {
	const metadata = " (Metadata.From, MetadataUpdate.ApplyTo)"
	return missing([]member{
		{s.Key.Name != "" && s.Key.Namespace != "", "Key", NeedMust, "no " + what + " can be told from another" + metadata},
		{s.UID != "", "UID", NeedMust, "objects of a " + what + " that was made anew are taken for its own" + metadata},
		{!s.Deleting.IsZero(), "Deleting", NeedMust, "no deletion is noticed" + metadata},
		{slices.Contains(s.Finalizers, "example.com/probe"), "Finalizers", NeedMust,
			"a " + what + " goes at once and leaves its machines behind" + metadata},
		{len(s.OwnerReferences) == 1, "OwnerReferences", NeedMust, "owners are written over" + metadata},
		{s.Labels["example.com/probe"] != "", "Labels", NeedMust, "it is in no Cluster" + metadata},
		{s.Annotations["example.com/probe"] != "", "Annotations", NeedMust,
			"pauses, hooks, excluded drains and what was created are not seen" + metadata},
	})
}

// replicatedForgotten compares what was read of what sets and pools have in common with what was written.
func replicatedForgotten(s *ReplicatedState) []Forgotten {
	return missing([]member{
		{s.Replicas.Or(0) == 3, "Replicas", NeedShould, "there are none, and a default is not written"},
		{s.SelectorText != "", "SelectorText", NeedOptional, "the scale subresource and autoscalers find no Machines"},
		{s.ObservedReplicas.Or(0) == 3, "ObservedReplicas", NeedShould, "the scale subresource and autoscalers see none"},
		{hasProbe(s.Conditions), "Conditions", NeedShould, "nothing says what is waited for"},
		{s.ObservedGeneration == 1, "ObservedGeneration", NeedOptional, "an old status looks like a new one"},
	})
}

func hasProbe(conditions []metav1.Condition) bool {
	return slices.ContainsFunc(conditions, func(c metav1.Condition) bool { return c.Type == "Probe" && c.Status == metav1.ConditionTrue })
}

// forgottenIn compares what was read with what was written.
func forgottenIn(s *MachineState) []Forgotten {
	at := probeTime()
	return missing([]member{
		{s.ProviderID != "", "ProviderID", NeedShould, "no Node is found, drained or deleted"},
		{s.DataSecretName.Found(), "DataSecretName", NeedShould, "infrastructure that waits for bootstrap data waits for ever"},
		{s.Node.Name != "", "Node.Name", NeedMust, "its Node is neither drained nor deleted"},
		{s.Node.UID == probeNode, "Node.UID", NeedMust, "its Node is neither drained nor deleted"},
		{s.BootstrapReady.Or(false), "BootstrapReady", NeedOptional, "a phase may go back"},
		{s.InfrastructureReady.Or(false), "InfrastructureReady", NeedOptional, "a phase may go back"},
		{s.FailureDomain != "", "FailureDomain", NeedOptional, "no failure domain is shown"},
		{hasProbe(s.Conditions), "Conditions", NeedShould, "nothing says what a Machine waits for"},
		{s.ObservedGeneration == 1, "ObservedGeneration", NeedOptional, "an old status looks like a new one"},
		{s.LastUpdated.Equal(at), "LastUpdated", NeedOptional, "times in phases are not counted after a restart"},
		{s.DrainStarted.Equal(at), "DrainStarted", NeedOptional, "Cluster API's controller counts its limit of the drain anew"},
		{s.VolumeDetachStarted.Equal(at), "VolumeDetachStarted", NeedOptional, "Cluster API's controller waits for volumes anew"},
		{s.FailureReason != "" && s.FailureMessage != "", "FailureReason", NeedOptional, "no terminal failure is shown"},
	})
}
