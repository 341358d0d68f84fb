package main

import (
	"context"
	"crypto/sha256"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "example.com/edge/v1"
)

// Console switches boxes on and off through their baseboard management controllers. Both calls may be repeated.
type Console interface {
	// PowerOn boots a box; a running one does not change.
	PowerOn(context.Context, v1.Hardware) error
	// PowerOff switches the power off. When it returns, nothing runs on the box.
	PowerOff(context.Context, v1.Hardware) error
}

// providerID returns the provider ID with which the firmware of a box registers its Node.
func providerID(h *v1.Hardware) string { return "edge://" + h.Serial }

// simulation simulates the boxes: one that is switched on is a Node. Its pods run if kubelets are simulated too, as kwok does. What
// happens to the Node of a box that is switched off is the reconciler's business.
type simulation struct{ client client.Client }

var _ Console = simulation{}

// hostname returns the host name of a box: its serial, or a name derived from it if it is not valid as Node name or label value.
func hostname(serial string) string {
	if len(validation.IsDNS1123Subdomain(serial)) == 0 && len(validation.IsValidLabelValue(serial)) == 0 {
		return serial
	}
	return fmt.Sprintf("box-%x", sha256.Sum256([]byte(serial)))[:20]
}

// PowerOn implements Console.
func (s simulation) PowerOn(ctx context.Context, h v1.Hardware) error {
	name := hostname(h.Serial)
	err := s.client.Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Spec:       corev1.NodeSpec{ProviderID: providerID(&h)},
	})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("switch %s on at %s: %w", h.Serial, h.Console, err)
	}
	return nil
}

// PowerOff implements Console.
func (s simulation) PowerOff(context.Context, v1.Hardware) error { return nil }
