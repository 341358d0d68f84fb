package engine_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
)

// The name of the data is copied once, and only when the provider names it.
func TestDecideBootstrap(t *testing.T) {
	ref := contract.Ref{Group: "g", Kind: "Config", Name: "mine"}
	config := external.Object{Ref: ref, Presence: external.Present, Contract: contract.V1Beta2, Object: &unstructured.Unstructured{}}
	leaving := config
	leaving.Object = &unstructured.Unstructured{Object: map[string]any{}}
	leaving.Object.SetDeletionTimestamp(new(metav1.Now()))
	created := contract.BootstrapConfigState{DataSecretCreated: true, DataSecretName: contract.Some("s")}
	for name, tc := range map[string]struct {
		facts   engine.BootstrapFacts
		secret  string
		created bool
		reason  string
	}{
		"the user named the data": {
			facts: engine.BootstrapFacts{Named: true}, created: true, reason: contract.ReasonDataSecretProvided},
		"neither data nor a provider": {reason: contract.ReasonDoesNotExist},
		"not created yet":             {facts: engine.BootstrapFacts{External: config}, reason: contract.ReasonNotReady},
		"created and named": {
			facts: engine.BootstrapFacts{External: config, Config: created}, secret: "s", created: true, reason: contract.ReasonReady},
		"created but not named": {
			facts:  engine.BootstrapFacts{External: config, Config: contract.BootstrapConfigState{DataSecretCreated: true}},
			reason: contract.ReasonDataSecretNameMissing},
		"a name that is there is never replaced": {
			facts: engine.BootstrapFacts{External: config, Named: true, Config: created}, created: true, reason: contract.ReasonReady},
		"a name that is there stays while the provider is not ready any more": {
			facts:   engine.BootstrapFacts{External: config, Named: true, Created: true},
			created: true, reason: contract.ReasonReady},
		"a config in place of one that was ready": {
			facts: engine.BootstrapFacts{External: config, Created: true}, created: true, reason: contract.ReasonNotReady},
		"a deletion takes nothing over": {
			facts: engine.BootstrapFacts{External: config, Config: created, Deleting: true}, reason: contract.ReasonReady},
		"a config that goes away gives nothing": {
			facts: engine.BootstrapFacts{External: leaving, Config: created}, reason: contract.ReasonReady},
		"the config is gone": {facts: engine.BootstrapFacts{External: external.Object{Presence: external.Absent, Ref: ref}},
			reason: contract.ReasonDoesNotExist},
		"the config could not be read": {facts: engine.BootstrapFacts{External: external.Object{Presence: external.Unread, Ref: ref}},
			reason: contract.ReasonInspectionFailed},
		"the kind of the config is gone": {
			facts: engine.BootstrapFacts{External: external.Object{Presence: external.KindMissing, Ref: ref,
				Problem: external.Problem{Reason: external.ReasonCRDNotFound}}}, reason: external.ReasonCRDNotFound},
		"data that exists stays existing": {
			facts: engine.BootstrapFacts{External: external.Object{Presence: external.Absent, Ref: ref}, Created: true}, created: true,
			reason: contract.ReasonDoesNotExist},
	} {
		t.Run(name, func(t *testing.T) {
			got := engine.DecideBootstrap(tc.facts)
			require.Equal(t, tc.secret, got.DataSecretName.Or(""))
			require.Equal(t, tc.created, got.Created)
			require.Equal(t, tc.reason, got.Condition.Reason)
		})
	}
}
