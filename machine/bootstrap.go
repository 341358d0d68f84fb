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

// bootstrapStep reads the BootstrapConfig, and takes over the name of its data.
func bootstrapStep(ctx context.Context, s *Scope) (Result, error) {
	facts := engine.BootstrapFacts{Kind: s.env.kind.GVK.Kind, Named: s.State.DataSecretName.Found(),
		Created: s.State.BootstrapReady.Or(false), Deleting: s.Deleting()}
	read := func(found external.Object) error {
		return contract.BootstrapConfig(found.Contract).Read(found.Object, &facts.Config)
	}
	used, err := s.readReferenced(ctx, s.State.Bootstrap, &s.Bootstrap, contract.ConditionBootstrapConfigReady, read)
	if !used {
		return Result{}, err
	}
	facts.External = s.Bootstrap
	decision := engine.DecideBootstrap(facts)
	if name, found := decision.DataSecretName.Get(); found {
		s.SetDataSecretName(name)
	}
	if decision.Created {
		s.SetBootstrapReady()
	}
	s.recordFailure(decision.Failure.Or(failure{}))
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
	engine.Set(&s.State.CertificatesExpire, d.Expire, &s.Update.CertificatesExpire)
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
