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
// The package is empty: its tests run helm, kustomize, promtool and a real API server with the CRDs of prometheus-operator over these files
// ("make verify-manifests"). The tests of ../dashboard read the dashboard with Grafana's types.
package deploy
