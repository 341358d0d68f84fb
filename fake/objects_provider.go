package fake

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
)

// InfraMachine returns an InfraMachine of the kind InfraMachineGVK whose machine does not exist yet.
func InfraMachine(v contract.Version, name string, options ...Option) *unstructured.Unstructured {
	return apply(object(InfraMachineGVK(v), name), options)
}

// BootstrapConfig returns a BootstrapConfig of the kind BootstrapConfigGVK without bootstrap data.
func BootstrapConfig(v contract.Version, name string, options ...Option) *unstructured.Unstructured {
	return apply(object(BootstrapConfigGVK(v), name), options)
}

// InfraMachinePool returns an InfraMachinePool of the kind InfraMachinePoolGVK without instances.
func InfraMachinePool(v contract.Version, name string, options ...Option) *unstructured.Unstructured {
	return apply(object(InfraMachinePoolGVK(v), name), options)
}

// Provisioned makes an InfraMachine report an existing machine with this provider ID.
func Provisioned(providerID string) Option {
	return func(u *unstructured.Unstructured) {
		layout := contract.LayoutsOf(versionOf(u)).InfraMachine
		setField(u, layout.ProviderID, providerID)
		setField(u, layout.Provisioned, true)
		reportReady(u, "True", "Provisioned", "")
	}
}

// Addresses sets the addresses of the machine of an InfraMachine.
func Addresses(addresses ...contract.Address) Option {
	return func(u *unstructured.Unstructured) {
		list := make([]any, 0, len(addresses))
		for _, a := range addresses {
			list = append(list, map[string]any{"type": a.Type, "address": a.Address})
		}
		WithField(list, contract.LayoutsOf(versionOf(u)).InfraMachine.Addresses.Path().Segments()...)(u)
	}
}

// DataSecret makes a BootstrapConfig report bootstrap data in this Secret of its namespace.
func DataSecret(name string) Option {
	return func(u *unstructured.Unstructured) {
		layout := contract.LayoutsOf(versionOf(u)).BootstrapConfig
		setField(u, layout.DataSecretName, name)
		setField(u, layout.DataSecretCreated, true)
		reportReady(u, "True", "DataSecretAvailable", "")
	}
}

// Instances makes an InfraMachinePool report an existing group with an instance for each provider ID.
func Instances(providerIDs ...string) Option {
	return func(u *unstructured.Unstructured) {
		layout, list := contract.LayoutsOf(versionOf(u)).InfraMachinePool, make([]any, 0, len(providerIDs))
		for _, id := range providerIDs {
			list = append(list, id)
		}
		WithField(list, layout.ProviderIDList.Path().Segments()...)(u)
		setField(u, layout.Replicas, int32(len(providerIDs))) //nolint:gosec // as many as a test lists
		setField(u, layout.Provisioned, true)
		setField(u, layout.ProvisionedFallback, true) // if the layout has it, Cluster API reads it
		reportReady(u, "True", "Provisioned", "")
	}
}

// Failed sets a permanent failure on an InfraMachine, BootstrapConfig or InfraMachinePool: in the fields that contract v1beta2 has dropped
// and Cluster API still reads, and in the condition Ready.
func Failed(reason, message string) Option {
	return func(u *unstructured.Unstructured) {
		layout := contract.LayoutsOf(versionOf(u)).InfraMachine // all three have the same fields
		setField(u, layout.FailureReason, reason)
		setField(u, layout.FailureMessage, message)
		reportReady(u, "False", reason, message)
	}
}

// versionOf returns the contract version of a provider object, which is the name of its API version.
func versionOf(u *unstructured.Unstructured) contract.Version {
	return contract.Version(u.GroupVersionKind().Version)
}

// setField writes a field, unless the layout has none or a scalar is on its path.
func setField[T string | bool | int32](u *unstructured.Unstructured, field contract.Field[T], value T) {
	_ = contract.Set(field, u.Object, value)
}

func reportReady(u *unstructured.Unstructured, status, reason, message string) {
	WithField([]any{map[string]any{
		"type": contract.ConditionReady, "status": status, "reason": reason, "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z",
	}}, "status", "conditions")(u)
}
