package main

import (
	"context"
	"errors"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const scheme = "kwok://"

// nodes is a driver whose instances are Nodes with the names of their Machines.
type nodes struct {
	client  kubernetes.Interface
	latency time.Duration
}

func (n *nodes) call(ctx context.Context) error {
	select {
	case <-time.After(n.latency):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// CreateMachine implements driver.Driver.
func (n *nodes) CreateMachine(ctx context.Context, r *driver.CreateMachineRequest) (*driver.CreateMachineResponse, error) {
	name := r.Machine.Name
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
			Labels: map[string]string{corev1.LabelHostname: name}},
		Spec: corev1.NodeSpec{ProviderID: scheme + name},
	}
	node.Status.Capacity = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi"),
		corev1.ResourcePods: resource.MustParse("110"),
	}
	err := n.call(ctx)
	if err == nil {
		_, err = n.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, status.WrapError(codes.Unavailable, "create a Node", err)
	}
	return &driver.CreateMachineResponse{ProviderID: scheme + name, NodeName: name}, nil
}

// InitializeMachine implements driver.Driver.
func (*nodes) InitializeMachine(context.Context, *driver.InitializeMachineRequest) (*driver.InitializeMachineResponse, error) {
	return nil, status.Error(codes.Unimplemented, "instances need no more")
}

// DeleteMachine implements driver.Driver.
func (n *nodes) DeleteMachine(ctx context.Context, r *driver.DeleteMachineRequest) (*driver.DeleteMachineResponse, error) {
	err := n.call(ctx)
	if err == nil {
		err = n.client.CoreV1().Nodes().Delete(ctx, r.Machine.Name, metav1.DeleteOptions{})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, status.WrapError(codes.Unavailable, "delete a Node", err)
	}
	return &driver.DeleteMachineResponse{}, nil
}

// GetMachineStatus implements driver.Driver.
func (n *nodes) GetMachineStatus(ctx context.Context, r *driver.GetMachineStatusRequest) (*driver.GetMachineStatusResponse, error) {
	if err := n.call(ctx); err != nil {
		return nil, status.WrapError(codes.Unavailable, "read a Node", err)
	}
	node, err := n.client.CoreV1().Nodes().Get(ctx, r.Machine.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, status.Error(codes.NotFound, err.Error())
	case err != nil:
		return nil, status.WrapError(codes.Unavailable, "read a Node", err)
	}
	return &driver.GetMachineStatusResponse{ProviderID: node.Spec.ProviderID, NodeName: node.Name}, nil
}

// ListMachines implements driver.Driver.
func (n *nodes) ListMachines(ctx context.Context, _ *driver.ListMachinesRequest) (*driver.ListMachinesResponse, error) {
	list, err := n.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err := errors.Join(n.call(ctx), err); err != nil {
		return nil, status.WrapError(codes.Unavailable, "list Nodes", err)
	}
	all := map[string]string{}
	for i := range list.Items {
		all[list.Items[i].Spec.ProviderID] = list.Items[i].Name
	}
	return &driver.ListMachinesResponse{MachineList: all}, nil
}

// GetVolumeIDs implements driver.Driver.
func (*nodes) GetVolumeIDs(context.Context, *driver.GetVolumeIDsRequest) (*driver.GetVolumeIDsResponse, error) {
	return &driver.GetVolumeIDsResponse{}, nil
}
