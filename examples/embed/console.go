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

// Console switches boxes on and off through their baseboard management controllers. Both may be asked for again and again.
type Console interface {
	// PowerOn has a box boot; one that runs stays as it is.
	PowerOn(context.Context, v1.Hardware) error
	// PowerOff takes the power away. Nothing runs on the box when it returns.
	PowerOff(context.Context, v1.Hardware) error
}

// providerID is how the firmware of a box names itself to Kubernetes.
func providerID(h *v1.Hardware) string { return "edge://" + h.Serial }

// simulation simulates the boxes: one that is switched on is a Node. Its pods run if kubelets are simulated too, as kwok does. What
// happens to the Node of a box that is switched off is the reconciler's business.
type simulation struct{ client client.Client }

var _ Console = simulation{}

// hostname is what a box calls itself: its serial, or where that cannot be the name of a Node or the value of a label, a name
// that stands for it.
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
