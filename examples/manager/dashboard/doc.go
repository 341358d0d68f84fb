// Package dashboard reads the chart's Grafana dashboard as Grafana's own types do. It is a module of its own, because those who import the
// library do not need them.
package dashboard
