package machine

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
)

// ConditionCertificatesExpiryKnown is False on a Machine of a control plane while the annotation that says when its certificates
// end cannot be read, and is not there otherwise. Nothing waits for it.
const ConditionCertificatesExpiryKnown = "CertificatesExpiryKnown"

// ReasonInvalidAnnotation is the reason of a condition about an annotation that does not hold what it must.
const ReasonInvalidAnnotation = "InvalidAnnotation"

// certificateFacts are what the end of a Machine's certificates depends on. The annotations are absent where there is none.
type certificateFacts struct {
	ControlPlane    bool
	Machine, Config contract.Opt[string]
	// MachineKind and ConfigName are for people.
	MachineKind, ConfigName string
	ConfigUnread            bool
	// Stored is what is known from before.
	Stored time.Time
}

// certificateDecision says what is known; Problem is empty unless an annotation cannot be read.
type certificateDecision struct {
	Expire  time.Time
	Problem string
}

// decideCertificates: what the Machine says goes before what its bootstrap configuration says, workers have none, and what
// cannot be read leaves what is known. Rule: Cluster API's reconcileCertificateExpiry.
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

// maxQuotedLength bounds what of an annotation is repeated in a message.
const maxQuotedLength = 64

// certificatesStep records when the certificates of a control plane machine end.
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

// configAnnotation is what a bootstrap configuration says, unless it is somebody else's.
func configAnnotation(e external.Object) contract.Opt[string] {
	if e.Object == nil || e.Foreign {
		return contract.Opt[string]{}
	}
	return annotationOf(e.Object.GetAnnotations())
}
