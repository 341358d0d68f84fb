package machine

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
)

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
			bounded(said.Or(""), maxQuotedLength))}
	}
	return certificateDecision{Expire: at.UTC().Truncate(time.Second)}
}

// maxQuotedLength is how many bytes of an annotation's value a message repeats.
const maxQuotedLength = 64

// certificatesStep records when the certificates of a control plane Machine expire.
func certificatesStep(_ context.Context, s *Scope) (Result, error) {
	_, controlPlane := s.State.Labels[contract.ControlPlaneLabel]
	d := decideCertificates(certificateFacts{
		ControlPlane: controlPlane, Stored: s.State.CertificatesExpire,
		Machine: annotationOf(s.State.Annotations), MachineKind: s.env.kind.GVK.Kind,
		Config: configAnnotation(s.Bootstrap), ConfigName: s.Bootstrap.Ref.Kind + " " + s.Bootstrap.Ref.Name,
		ConfigUnread: s.Bootstrap.Presence == external.Unread || s.Bootstrap.Presence == external.KindMissing,
	})
	s.SetCertificatesExpire(d.Expire)
	switch _, said := findCondition(s.stored, ConditionCertificatesExpiryKnown); {
	case d.Problem != "":
		s.Assert(condition(ConditionCertificatesExpiryKnown, metav1.ConditionFalse, ReasonInvalidAnnotation, d.Problem))
	case said:
		s.update.RemoveConditions = append(s.update.RemoveConditions, ConditionCertificatesExpiryKnown)
	}
	return Result{}, nil
}

func annotationOf(annotations map[string]string) contract.Opt[string] {
	if said, found := annotations[contract.CertificatesExpiryAnnotation]; found {
		return contract.Some(said)
	}
	return contract.Opt[string]{}
}

// configAnnotation returns the annotation of the bootstrap configuration, unless another controller owns the configuration.
func configAnnotation(e external.Object) contract.Opt[string] {
	if e.Object == nil || e.Foreign {
		return contract.Opt[string]{}
	}
	return annotationOf(e.Object.GetAnnotations())
}
