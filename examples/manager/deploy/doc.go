// Package deploy has the manifests of examples/manager: a Helm chart, and what kustomize needs to do without Helm.
//
//	chart/       the source of all
//	base/        what helm makes of it, with the CRDs and a namespace, for kubectl apply -k; "make generate" writes it
//	monitoring/  a component for clusters with prometheus-operator, made in the same way
//	overlay/     an example of a base with an image of one's own, and with monitoring
//
// The chart is the source because its values change what exists: rights follow the kinds that are on. They are not written by hand:
// chart/files/rights.yaml is computed from what the manager prints with --print-rbac, for combinations of flags. The base is checked in
// rendered, so that kubectl alone can apply it. The chart has no CRDs: the manager installs them (crds.install), since Helm does not
// update those of a chart.
//
// # The first Machine
//
// Something has to make the machines. With apiGroup cluster.x-k8s.io these are Cluster API's providers, as before. With the manager's own
// kinds it can be the driver that is included, whose Nodes kwok simulates; kwok's controller must run in the cluster:
//
//	helm install machinist-manager examples/manager/deploy/chart --namespace machinist-system --create-namespace --set driver=kwok
//	echo '{apiVersion: machinist.dev/v1beta2, kind: Machine, metadata: {name: vm1}, spec: {version: v1.36.3}}' | kubectl apply -f -
//	kubectl get machines.machinist.dev vm1 --watch
//
// Without either, a Machine waits, and its conditions name what it waits for. "manager describe machine NAME" shows
// the same on one screen, with what to do.
//
// # Upgrade and removal
//
// helm upgrade replaces one replica after the other, and the new manager applies its CRDs when it starts. A field of a CRD that another
// manager owns is a conflict, which ends the start with an error.
//
// Before the chart is removed, delete the MachineDeployments, MachineSets, MachinePools and Machines, and wait until they are gone: they
// have finalizers that nothing else removes. Or give the fleet to Cluster API's manager, as ../doc.go describes. helm uninstall
// leaves the CRDs. To delete them, run kubectl delete -f examples/manager/api/crds.yaml; that deletes all objects of these kinds.
//
// The package is empty: its tests run helm, kustomize, promtool and a real API server with the CRDs of prometheus-operator over these files
// ("make verify-manifests"). The tests of ../dashboard read the dashboard with Grafana's types.
package deploy
