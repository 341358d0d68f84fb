package machine

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
)

// bootstrapFacts are what a pass knows of the bootstrap data.
type bootstrapFacts struct {
	External       external.Object
	Config         contract.BootstrapConfigState // read when External is Present
	DataSecretName contract.Opt[string]
	Created        bool // reported before
	Deleting       bool
}

// bootstrapDecision is the result of decideBootstrap.
type bootstrapDecision struct {
	// DataSecretName is the name to record, absent when it stays as it is.
	DataSecretName contract.Opt[string]
	// Created is true when the data exists.
	Created   bool
	Condition metav1.Condition
	// Failure is what the config reports as a permanent failure.
	Failure failure
}

// decideBootstrap applies the contract: the name is copied once, when the provider reports that the data was created, and never changes
// afterwards. A user may set the data instead; then the Machine has no bootstrap object.
func decideBootstrap(f bootstrapFacts) bootstrapDecision {
	if f.External.Presence == external.NotReferenced {
		if f.DataSecretName.Found() {
			return bootstrapDecision{Created: true, Condition: engine.Condition(contract.ConditionBootstrapConfigReady, metav1.ConditionTrue,
				contract.ReasonDataSecretProvided, "")}
		}
		return bootstrapDecision{Condition: engine.Condition(contract.ConditionBootstrapConfigReady, metav1.ConditionFalse,
			contract.ReasonDoesNotExist,
			"the Machine has neither a bootstrap configuration nor the name of a data secret: set one of them")}
	}
	d := bootstrapDecision{Created: f.Created || f.DataSecretName.Found()}
	if f.External.Presence != external.Present || f.External.Problem != (external.Problem{}) {
		d.Condition = engine.Unavailable(contract.ConditionBootstrapConfigReady, "Machine", f.External, f.Created, f.Deleting)
		return d
	}
	kind, ready := f.External.Ref.Kind, f.Config.DataSecretCreated
	d.Failure = engine.FailureOf(f.External, f.Config.FailureReason, f.Config.FailureMessage)
	d.Condition = engine.Mirror(contract.ConditionBootstrapConfigReady, f.Config.Ready,
		engine.Initialized(contract.ConditionBootstrapConfigReady, ready || d.Created, kind+" status.initialization.dataSecretCreated is false"))
	if !ready || f.DataSecretName.Found() || f.Deleting || f.External.Deleting() {
		return d
	}
	if f.Config.DataSecretName.Or("") == "" {
		d.Condition = engine.Condition(contract.ConditionBootstrapConfigReady, metav1.ConditionFalse, contract.ReasonDataSecretNameMissing,
			fmt.Sprintf(
				"%s %s reports its data secret as created but does not name it: the provider must set status.dataSecretName", kind,
				f.External.Ref.Name))
		return d
	}
	d.DataSecretName, d.Created = f.Config.DataSecretName, true
	return d
}

func bootstrapStep(ctx context.Context, s *Scope) (Result, error) {
	facts := bootstrapFacts{DataSecretName: s.State.DataSecretName, Created: s.State.BootstrapReady.Or(false),
		Deleting: s.Deleting()}
	read := func(found external.Object) error {
		return contract.BootstrapConfig(found.Contract).Read(found.Object, &facts.Config)
	}
	used, err := s.readReferenced(ctx, s.State.Bootstrap, &s.Bootstrap, contract.ConditionBootstrapConfigReady, read)
	if !used {
		return Result{}, err
	}
	facts.External = s.Bootstrap
	decision := decideBootstrap(facts)
	if name, found := decision.DataSecretName.Get(); found {
		s.SetDataSecretName(name)
	}
	if decision.Created {
		s.SetBootstrapReady()
	}
	s.recordFailure(decision.Failure)
	s.Assert(decision.Condition)
	return Result{RequeueAfter: s.Bootstrap.RetryAfter}, nil
}

// ConditionCertificatesExpiryKnown is False on a control plane Machine while the annotation with the expiry time of its certificates
// cannot be read, and absent otherwise. No step waits for it.
const ConditionCertificatesExpiryKnown = "CertificatesExpiryKnown"

// ReasonInvalidAnnotation is the reason of a condition about an annotation with an invalid value.
const ReasonInvalidAnnotation = "InvalidAnnotation"

// certificateFacts are the inputs of decideCertificates. An absent annotation has no value.
type certificateFacts struct {
	ControlPlane    bool
	Machine, Config contract.Opt[string]
	// MachineKind and ConfigName appear in messages.
	MachineKind, ConfigName string
	ConfigUnread            bool
	// Stored is the expiry time in the status as read.
	Stored time.Time
}

// certificateDecision is the result of decideCertificates; Problem is empty unless an annotation cannot be read.
type certificateDecision struct {
	Expire  time.Time
	Problem string
}

// decideCertificates: the annotation of the Machine takes precedence over that of its bootstrap configuration. Workers have no expiry
// time. An annotation that cannot be read leaves the stored time unchanged. Rule: Cluster API's reconcileCertificateExpiry.
func decideCertificates(f certificateFacts) certificateDecision {
	said, of := f.Machine, f.MachineKind
	if !said.Found() {
		said, of = f.Config, f.ConfigName
	}
	switch {
	case !f.ControlPlane:
		return certificateDecision{Expire: f.Stored}
	case !said.Found() && f.ConfigUnread:
		return certificateDecision{Expire: f.Stored}
	case !said.Found():
		return certificateDecision{}
	}
	at, err := time.Parse(time.RFC3339, said.Or(""))
	if err != nil {
		return certificateDecision{Expire: f.Stored, Problem: fmt.Sprintf(
			"the annotation %s of the %s is %q: want an RFC 3339 time such as 2027-01-31T12:00:00Z", contract.CertificatesExpiryAnnotation, of,
			engine.Bounded(said.Or(""), maxQuotedLength))}
	}
	return certificateDecision{Expire: at.UTC().Truncate(time.Second)}
}

// maxQuotedLength is how many bytes of an annotation's value a message repeats.
const maxQuotedLength = 64

// certificatesStep records when the certificates of a control plane Machine expire.
func certificatesStep(_ context.Context, s *Scope) (Result, error) {
	_, controlPlane := s.State.Labels[contract.ControlPlaneLabel]
	facts := certificateFacts{
		ControlPlane: controlPlane, Stored: s.State.CertificatesExpire,
		Machine: certificatesExpiry(s.State.Annotations), MachineKind: s.env.kind.GVK.Kind,
		ConfigName:   s.Bootstrap.Ref.Kind + " " + s.Bootstrap.Ref.Name,
		ConfigUnread: s.Bootstrap.Presence == external.Unread || s.Bootstrap.Presence == external.KindMissing,
	}
	if s.Bootstrap.Object != nil && !s.Bootstrap.Foreign {
		facts.Config = certificatesExpiry(s.Bootstrap.Object.GetAnnotations())
	}
	d := decideCertificates(facts)
	change(&s.State.CertificatesExpire, d.Expire, &s.Update.CertificatesExpire)
	switch _, said := engine.Find(s.Stored, ConditionCertificatesExpiryKnown); {
	case d.Problem != "":
		s.Assert(engine.Condition(ConditionCertificatesExpiryKnown, metav1.ConditionFalse, ReasonInvalidAnnotation, d.Problem))
	case said:
		s.Update.RemoveConditions = append(s.Update.RemoveConditions, ConditionCertificatesExpiryKnown)
	}
	return Result{}, nil
}

func certificatesExpiry(annotations map[string]string) contract.Opt[string] {
	if said, found := annotations[contract.CertificatesExpiryAnnotation]; found {
		return contract.Some(said)
	}
	return contract.Opt[string]{}
}
