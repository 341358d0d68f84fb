package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "example.com/edge/v1"
)

// Console switches boxes on and off through their baseboard management controllers. Both may be asked for again and again.
type Console interface {
	// PowerOn has a box boot; one that runs stays as it is.
	PowerOn(context.Context, v1.Hardware) error
	// PowerOff takes the power away. Nothing runs on the box when it returns.
	PowerOff(context.Context, v1.Hardware) error
}

// providerID is how the firmware of a box names itself to Kubernetes.
func providerID(h *v1.Hardware) string { return "edge://" + h.Serial }

// simulation plays the boxes: one that is switched on is a Node. Its pods run where somebody plays kubelets, as kwok does. What
// happens to the Node of a box that is switched off is the reconciler's business.
type simulation struct{ client client.Client }

var _ Console = simulation{}

// PowerOn implements Console.
func (s simulation) PowerOn(ctx context.Context, h v1.Hardware) error {
	err := s.client.Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: h.Serial, Labels: map[string]string{corev1.LabelHostname: h.Serial}},
		Spec:       corev1.NodeSpec{ProviderID: providerID(&h)},
	})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("switch %s on at %s: %w", h.Serial, h.Console, err)
	}
	return nil
}

// PowerOff implements Console.
func (s simulation) PowerOff(context.Context, v1.Hardware) error { return nil }
