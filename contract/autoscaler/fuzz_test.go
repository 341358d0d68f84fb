package autoscaler_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/autoscaler"
)

// anyObject is what a fuzzed text decodes to, an object without content when that is no JSON object.
func anyObject(text []byte) *unstructured.Unstructured {
	var content map[string]any
	if err := utiljson.Unmarshal(text, &content); err != nil {
		content = nil
	}
	return &unstructured.Unstructured{Object: content}
}

func FuzzAnyObject(f *testing.F) {
	for _, text := range []string{
		`{}`, `{"kind":"MachineSet"}`, `{"kind":"MachinePool","spec":{"providerIDList":[null,1,"",{}]},"status":[]}`,
		`{"kind":"MachineSet","metadata":{"annotations":{"a":1},"labels":[],"ownerReferences":[null,{"kind":"MachineDeployment","name":"d"}]},"spec":{"replicas":1.5,"selector":{"matchLabels":{"a":null},"matchExpressions":[null,{"key":1}]}}}`,
		`{"kind":"MachineDeployment","spec":{"selector":{"matchExpressions":[{"key":"a","operator":"In","values":[1]}]},"template":{"spec":{"taints":[null,[],{"key":1}],"infrastructureRef":{"kind":"x"}}}}}`,
		`{"kind":"Machine","metadata":{"deletionTimestamp":1,"namespace":7},"status":{"nodeRef":null,"failureMessage":[]}}`,
		`{"kind":"CustomResourceDefinition","spec":{"names":{"kind":"Machine"},"versions":[null,{"served":true,"schema":{"openAPIV3Schema":{"properties":{"spec":[]}}}}]}}`,
		`{"status":{"capacity":{"cpu":"1e-2147483647","memory":1},"nodeInfo":[]}}`,
	} {
		f.Add([]byte(text))
	}
	for _, text := range []string{machineSetYAML, machineYAML, templateYAML, crdYAML} {
		json, err := yaml.YAMLToJSON([]byte(text))
		require.NoError(f, err)
		f.Add(json)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		obj := anyObject(text)
		before := obj.DeepCopy()
		keys := autoscaler.DefaultKeys()
		for _, kind := range []string{"MachineSet", "MachineDeployment", "MachinePool", obj.GetKind()} {
			group := obj.DeepCopy()
			if kind != "" && group.Object != nil {
				group.SetKind(kind)
			}
			list := []*unstructured.Unstructured{obj, group}
			around := autoscaler.Around{Template: obj, Machines: list, MachineSets: list, Nodes: []*corev1.Node{{}}}
			findings := autoscaler.Check(keys, group, around)
			require.Empty(t, cmp.Diff(findings, autoscaler.Check(keys, group, around)), "the second time")
			_, err := autoscaler.StandingOf(keys, group, obj)
			requireTyped(t, err)
			_, err = autoscaler.CapacityOf(group, obj)
			requireTyped(t, err)
			_, err = autoscaler.RollingOut(group, list)
			requireTyped(t, err)
		}
		autoscaler.CheckCRD(keys, obj)
		instance, err := autoscaler.InstanceOf(obj)
		requireTyped(t, err)
		if key, ok := autoscaler.MachineOf(instance.ID); ok && instance.State != autoscaler.InstanceRunning {
			require.Equal(t, obj.GetNamespace()+"_"+obj.GetName(), key.Namespace+"_"+key.Name)
		}
		require.Empty(t, cmp.Diff(before.Object, obj.Object), "an object was changed")
	})
}

// requireTyped checks that an error can be matched.
func requireTyped(t *testing.T, err error) {
	t.Helper()
	if err != nil && !errors.Is(err, autoscaler.ErrAnnotation) && !errors.Is(err, contract.ErrWrongType) {
		t.Fatalf("an error that callers cannot match: %v", err)
	}
}

func FuzzAnnotations(f *testing.F) {
	f.Add("4", "16Gi", "2", "nvidia.com/gpu", "a=b,c=", "k=v:NoSchedule,l:NoExecute", "d=1, e=0,", "gpu.example.com")
	f.Add("1e-2147483647", "1E", "-1", "gpu", ",=,", ":,", "=1", "a b")
	f.Add("0.5m", "1.5e2", "999999999999999999999", "a/b/c", "a=b=c", "a=b:c:d", "A.b=01", "A")
	f.Fuzz(func(t *testing.T, cpu, memory, count, gpuType, labels, taints, csi, dra string) {
		annotations := map[string]string{
			autoscaler.CPUAnnotation: cpu, autoscaler.MemoryAnnotation: memory, autoscaler.EphemeralDiskAnnotation: memory,
			autoscaler.GPUCountAnnotation: count, autoscaler.MaxPodsAnnotation: count, autoscaler.GPUTypeAnnotation: gpuType,
			autoscaler.LabelsAnnotation: labels, autoscaler.TaintsAnnotation: taints, autoscaler.CSIDriverAnnotation: csi,
			autoscaler.DRADriverAnnotation: dra,
		}
		for _, one := range []string{"", count, cpu} {
			keys := autoscaler.DefaultKeys()
			if bounds, err := keys.ParseBounds(map[string]string{keys.MinSize: one, keys.MaxSize: count}); err == nil {
				require.GreaterOrEqual(t, bounds.Max.Or(0), bounds.Min.Or(0))
			}
			_, err := keys.ParseOptions(map[string]string{keys.OptionPrefix + labels: one, keys.OptionPrefix + "maxnodeprovisiontime": one})
			requireTyped(t, err)
		}
		autoscaler.NormalizeProviderID(labels)
		autoscaler.ManagedLabel(labels)
		_, err := autoscaler.ParseCapacity(annotations)
		requireTyped(t, err)
	})
}
