package e2e_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/machinist-dev/machinist/machine/userdata"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

const (
	// kubeletVersion is that of the kubelet.
	kubeletVersion = "v1.36.3"
	// tokenLife is how long a new machine may take to join.
	tokenLife = time.Hour
)

// hollowFirstBoot makes a bootstrap token for one machine, and returns the first-boot data of Ubuntu 24.04 with which it joins the control plane.
// config says what the Node becomes; Version and Cluster are filled in. Without Node.OmitUninitialized the Node has the taint that a
// Machine reconciler removes.
func hollowFirstBoot(ctx context.Context, plane *cluster.ControlPlane, config userdata.Config) (userdata.Document, error) {
	token := newToken()
	err := issued(ctx, plane, token, config.Node.Name)
	if err != nil {
		return userdata.Document{}, err
	}
	return renderedFirstBoot(plane, token, config)
}

// issued creates the object of a bootstrap token.
func issued(ctx context.Context, plane *cluster.ControlPlane, token userdata.Secret, node string) error {
	client, err := kubernetes.NewForConfig(plane.Config())
	if err != nil {
		return err
	}
	secret, err := userdata.TokenSecret(token, time.Now().Add(tokenLife), "first boot of "+node)
	if err != nil {
		return err
	}
	if _, err := client.CoreV1().Secrets(secret.Namespace).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create the bootstrap token of %s: %w", node, err)
	}
	return nil
}

func renderedFirstBoot(plane *cluster.ControlPlane, token userdata.Secret, config userdata.Config) (userdata.Document, error) {
	system, err := userdata.Builtin(userdata.Ubuntu2404)
	if err != nil {
		return userdata.Document{}, err
	}
	config.Version = kubeletVersion
	config.Cluster = userdata.Cluster{Server: plane.Config().Host, CA: string(plane.Config().CAData), Token: token}
	doc, err := userdata.Render(system, config)
	if err != nil {
		return userdata.Document{}, fmt.Errorf("first boot of %s: %w", config.Node.Name, err)
	}
	return doc, nil
}

// newToken returns 6 characters that name a bootstrap token and 16 that are secret.
func newToken() userdata.Secret {
	text := strings.ToLower(rand.Text()) // 26 characters of a to z and 2 to 7
	return userdata.NewSecret(text[:6] + "." + text[6:22])
}
