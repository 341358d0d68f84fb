package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

const (
	serviceCIDR = "10.96.0.0/16"
	podCIDR     = "10.128.0.0/9"
	// leaseSeconds is a kubelet's default.
	leaseSeconds = 40
	// kwokWorkers raise kwok's four, so that a hundred pods do not queue for a second.
	kwokWorkers = 16
	// podDelete is the kwok stage that lets a pod go.
	podDelete = "pod-delete"
)

// auditPolicy has one event for each request: a watch when it begins, everything else when it ends, and no probes.
func (o Options) auditPolicy() ([]byte, error) {
	rules := []map[string]any{
		{"level": "None", "nonResourceURLs": []string{"/healthz*", "/livez*", "/readyz*"}},
		{"level": "Metadata", "verbs": []string{"watch"}, "omitStages": []string{"RequestReceived", "ResponseComplete"}},
	}
	whole := []string{"RequestReceived", "ResponseStarted"}
	for _, r := range o.AuditObjects {
		rules = append(rules, map[string]any{
			"level": "RequestResponse", "verbs": writingVerbs(), "omitStages": whole, "omitManagedFields": !o.AuditManagedFields,
			"resources": []map[string]any{{"group": r.Group, "resources": []string{r.Resource, r.Resource + "/*"}}},
		})
	}
	policy, err := yaml.Marshal(map[string]any{
		"apiVersion": "audit.k8s.io/v1", "kind": "Policy",
		"rules": append(rules, map[string]any{"level": "Metadata", "omitStages": whole}),
	})
	if err != nil {
		return nil, fmt.Errorf("write the audit policy: %w", err)
	}
	return policy, nil
}

// writeConfigs writes the files that the components are pointed to.
func (cp *ControlPlane) writeConfigs() error {
	scheduler, err := yaml.Marshal(map[string]any{
		"apiVersion":       "kubescheduler.config.k8s.io/v1",
		"kind":             "KubeSchedulerConfiguration",
		"clientConnection": map[string]any{"kubeconfig": cp.kubeconfig(Scheduler), "qps": 1000, "burst": 2000},
		"leaderElection":   map[string]any{"leaderElect": false},
	})
	if err != nil {
		return fmt.Errorf("write the scheduler's configuration: %w", err)
	}
	kwok, err := cp.kwokConfig()
	if err != nil {
		return err
	}
	policy, err := cp.opts.auditPolicy()
	if err != nil {
		return err
	}
	return errors.Join(
		cp.write(auditPolicy, policy),
		cp.write(schedulerFile, scheduler),
		cp.write(kwokFile, kwok),
	)
}

func (cp *ControlPlane) kwokConfig() ([]byte, error) {
	// kwok's module embeds its stages; a copy here would fall behind.
	defaults, err := exec.Command(cp.binaries.Kwok, "stages").Output()
	if err != nil {
		return nil, fmt.Errorf("ask kwok for its stages: %w", err)
	}
	stages, err := mergeStages(string(defaults), cp.opts.ExtraStages, cp.opts.PodTermination)
	if err != nil {
		return nil, err
	}
	// kwok fills in its defaults only when it has no configuration file, so none must be missing here: without
	// podsOnNodeSyncParallelism, pods that it sees before their Node's Lease are forgotten.
	options := map[string]any{
		"cidr":                      podCIDR,
		"nodeIP":                    "127.0.0.1",
		"serverAddress":             hostPort(cp.ports.kwok),
		"enableDebuggingHandlers":   false,
		"nodeLeaseDurationSeconds":  leaseSeconds,
		"podPlayStageParallelism":   kwokWorkers,
		"nodePlayStageParallelism":  kwokWorkers,
		"nodeLeaseParallelism":      kwokWorkers,
		"podsOnNodeSyncParallelism": kwokWorkers,
		"manageAllNodes":            cp.opts.ManagedNodes == "",
	}
	if cp.opts.ManagedNodes != "" {
		options["manageNodesWithLabelSelector"] = cp.opts.ManagedNodes
	}
	config, err := yaml.Marshal(map[string]any{
		"apiVersion": "config.kwok.x-k8s.io/v1alpha1",
		"kind":       "KwokConfiguration",
		"options":    options,
	})
	if err != nil {
		return nil, fmt.Errorf("write kwok's configuration: %w", err)
	}
	documents := [][]byte{config}
	for _, stage := range stages {
		document, err := yaml.Marshal(stage.Object)
		if err != nil {
			return nil, fmt.Errorf("write kwok's stage %s: %w", stage.GetName(), err)
		}
		documents = append(documents, document)
	}
	return bytes.Join(documents, []byte("---\n")), nil
}

// mergeStages replaces default stages by extra ones of the same name, adds the others, and gives the default
// stage that lets a pod go its delay.
func mergeStages(defaults string, extra []string, termination time.Duration) ([]*unstructured.Unstructured, error) {
	stages, err := readStages(defaults)
	if err != nil {
		return nil, fmt.Errorf("read kwok's own stages: %w", err)
	}
	for _, stage := range stages {
		if stage.GetName() != podDelete || termination == 0 {
			continue
		}
		if err := unstructured.SetNestedField(stage.Object, termination.Milliseconds(),
			"spec", "delay", "durationMilliseconds"); err != nil {
			return nil, fmt.Errorf("set the delay of kwok's stage %s: %w", podDelete, err)
		}
	}
	for i, document := range extra {
		more, err := readStages(document)
		if err != nil {
			return nil, fmt.Errorf("option ExtraStages[%d]: %w", i, err)
		}
		for _, stage := range more {
			stages = slices.DeleteFunc(stages, func(other *unstructured.Unstructured) bool {
				return other.GetName() == stage.GetName()
			})
			stages = append(stages, stage)
		}
	}
	return stages, nil
}

func readStages(documents string) ([]*unstructured.Unstructured, error) {
	decoder := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(documents), 4096)
	var stages []*unstructured.Unstructured
	for {
		stage := &unstructured.Unstructured{}
		err := decoder.Decode(&stage.Object)
		switch {
		case errors.Is(err, io.EOF):
			return stages, nil
		case err != nil:
			return nil, err
		case len(stage.Object) == 0:
			continue
		case stage.GetKind() != "Stage" || stage.GetName() == "":
			return nil, fmt.Errorf("want a kwok Stage with a name, got kind %q, name %q", stage.GetKind(), stage.GetName())
		}
		stages = append(stages, stage)
	}
}
