package machine

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
)

// bootstrapStep reads the BootstrapConfig and copies the name of its data Secret to the Machine.
func bootstrapStep(ctx context.Context, s *Scope) (Result, error) {
	facts := engine.BootstrapFacts{Kind: s.env.kind.GVK.Kind, Named: s.State.DataSecretName.Found(),
		Created: s.State.BootstrapReady.Or(false), Deleting: s.Deleting()}
	read := func(found external.Object) error {
		return contract.LayoutsOf(found.Contract).BootstrapConfig.Read(found.Object, &facts.Config)
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
	s.recordFailure(decision.Failure)
	s.Assert(decision.Condition)
	return Result{RequeueAfter: s.Bootstrap.RetryAfter}, nil
}

// decideCertificates returns the time at which the certificates of a control plane Machine expire. The annotation of the Machine takes
// precedence over the annotation of its bootstrap configuration. The stored time stays unchanged when the annotation is invalid or the
// configuration could not be read. Rule: Cluster API's reconcileCertificateExpiry.
func decideCertificates(stored time.Time, machine, config map[string]string, configUnread bool) (time.Time, error) {
	value, found := machine[contract.CertificatesExpiryAnnotation]
	of := "Machine"
	if !found {
		of = "bootstrap configuration"
		value, found = config[contract.CertificatesExpiryAnnotation]
	}
	switch {
	case !found && configUnread:
		return stored, nil
	case !found:
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, value)
	if err != nil {
		return stored, fmt.Errorf("the annotation %s of the %s is %q: want an RFC 3339 time such as 2027-01-31T12:00:00Z",
			contract.CertificatesExpiryAnnotation, of, value)
	}
	return at.UTC().Truncate(time.Second), nil
}

// certificatesStep stores the time at which the certificates of a control plane Machine expire. Workers have no expiry time.
func certificatesStep(ctx context.Context, s *Scope) (Result, error) {
	if _, controlPlane := s.State.Labels[contract.ControlPlaneLabel]; !controlPlane {
		return Result{}, nil
	}
	var config map[string]string
	if s.Bootstrap.Object != nil && !s.Bootstrap.Foreign {
		config = s.Bootstrap.Object.GetAnnotations()
	}
	unread := s.Bootstrap.Presence == external.Unread || s.Bootstrap.Presence == external.KindMissing
	expire, err := decideCertificates(s.State.CertificatesExpire, s.State.Annotations, config, unread)
	if err != nil {
		log.FromContext(ctx).Error(err, "It is not known when the certificates of a Machine expire")
	}
	engine.Set(&s.State.CertificatesExpire, expire, &s.Update.CertificatesExpire)
	return Result{}, nil
}
