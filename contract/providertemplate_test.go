package contract_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/machinist-dev/machinist/contract"
)

const fullTemplate = `{
	"kind":"TestMachineTemplate","metadata":{"namespace":"default","name":"t1","labels":{"of":"the template itself"}},
	"spec":{"template":{"metadata":{"labels":{"a":"b"},"annotations":{"c":""}},"spec":{"size":"large"}}},
	"status":{"capacity":{"cpu":4,"memory":"16Gi","nvidia.com/gpu":"1"},"nodeInfo":{"architecture":"arm64","operatingSystem":"linux"}}
}`

func fullTemplateState() contract.InfraMachineTemplateState {
	return contract.InfraMachineTemplateState{
		TemplateState: contract.TemplateState{Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": ""}, HasSpec: true},
		Capacity: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi"),
			"nvidia.com/gpu": resource.MustParse("1")},
		NodeInfo: contract.NodeInfo{Architecture: "arm64", OperatingSystem: "linux"},
	}
}

func TestInfraMachineTemplate_IsReadCompletely(t *testing.T) {
	for _, v := range contractVersions() {
		obj, before := parseObject(t, fullTemplate), parseObject(t, fullTemplate)
		state := contract.InfraMachineTemplateState{Unreadable: contract.ErrWrongType, Capacity: corev1.ResourceList{"stale": {}}}
		require.NoError(t, contract.InfraMachineTemplate(v).Read(obj, &state))
		if diff := cmp.Diff(fullTemplateState(), state); diff != "" {
			t.Errorf("%s (-want +got):\n%s", v, diff)
		}
		var config contract.BootstrapConfigTemplateState
		require.NoError(t, contract.BootstrapConfigTemplate(v).Read(obj, &config))
		if diff := cmp.Diff(fullTemplateState().TemplateState, config.TemplateState); diff != "" {
			t.Errorf("%s (-want +got):\n%s", v, diff)
		}
		require.Empty(t, cmp.Diff(before.Object, obj.Object), "reading changes nothing")
	}
}

func TestTemplates_HardlyAnythingMustBeThere(t *testing.T) {
	for _, object := range []string{`{}`, `{"spec":{}}`, `{"spec":{"template":null}}`, `{"spec":{"template":{}},"status":{}}`,
		`{"spec":{"template":{"metadata":null,"spec":null}},"status":{"capacity":null,"nodeInfo":null}}`,
		`{"spec":{"template":{"metadata":{"labels":null,"annotations":null}}}}`} {
		state, config := fullTemplateState(), contract.BootstrapConfigTemplateState{TemplateState: fullTemplateState().TemplateState}
		require.NoError(t, contract.InfraMachineTemplate(contract.V1Beta2).Read(parseObject(t, object), &state))
		require.Empty(t, cmp.Diff(contract.InfraMachineTemplateState{}, state), object)
		require.NoError(t, contract.BootstrapConfigTemplate(contract.V1Beta2).Read(parseObject(t, object), &config))
		require.Empty(t, cmp.Diff(contract.BootstrapConfigTemplateState{}, config), object)
	}
	var state contract.BootstrapConfigTemplateState
	require.NoError(t, contract.BootstrapConfigTemplate(contract.V1Beta1).Read(parseObject(t, `{"spec":{"template":{"spec":{}}}}`), &state))
	require.True(t, state.HasSpec, "an empty spec is a spec")
}

func TestTemplates_ErrorsNameTheTemplateTheContractAndThePlace(t *testing.T) {
	for spec, want := range map[string]string{
		`[]`:                          "spec: want object, found list",
		`{"template":"x"}`:            "spec.template: want object, found string",
		`{"template":{"spec":"x"}}`:   "spec.template.spec: want object, found string",
		`{"template":{"metadata":7}}`: "spec.template.metadata: want object, found integer",
		`{"template":{"metadata":{"labels":[]}}}`:                      "spec.template.metadata.labels: want object, found list",
		`{"template":{"metadata":{"labels":{"b":1,"a":true,"c":""}}}}`: "spec.template.metadata.labels.a: want string, found bool",
		`{"template":{"metadata":{"annotations":{"a.b/c":null}}}}`:     "spec.template.metadata.annotations.a.b/c: want string, found null",
	} {
		t.Run(want, func(t *testing.T) {
			obj := parseObject(t, `{"kind":"K","metadata":{"name":"t"},"spec":`+spec+`}`)
			err := contract.InfraMachineTemplate(contract.V1Beta1).Read(obj, &contract.InfraMachineTemplateState{})
			require.ErrorIs(t, err, contract.ErrWrongType)
			require.EqualError(t, err, "K t breaks contract v1beta1: "+want)
			err = contract.BootstrapConfigTemplate(contract.V1Alpha3).Read(obj, &contract.BootstrapConfigTemplateState{})
			require.EqualError(t, err, "K t breaks contract v1alpha3: "+want)
		})
	}
}

// Machines are cloned whether or not cluster-autoscaler could scale from zero.
func TestInfraMachineTemplate_WhatOnlyTheAutoscalerReadsHoldsNothingUp(t *testing.T) {
	state := fullTemplateState()
	require.NoError(t, contract.InfraMachineTemplate(contract.V1Beta2).Read(parseObject(t, `{"spec":{"template":{"spec":{}}},
		"status":{"capacity":{"memory":"500mb","cpu":"1"},"nodeInfo":{"architecture":1,"operatingSystem":"windows"}}}`), &state))
	require.EqualError(t, state.Unreadable,
		"status.capacity.memory: want quantity, found unreadable text\nstatus.nodeInfo.architecture: want string, found integer")
	require.Nil(t, state.Capacity)
	require.Equal(t, contract.NodeInfo{OperatingSystem: "windows"}, state.NodeInfo)
	require.True(t, state.HasSpec)
}

func TestQuantitiesField_ReadsWhatSchemasAllow(t *testing.T) {
	f := contract.QuantitiesAt("capacity")
	for capacity, want := range map[string]string{
		`{"cpu":"500m"}`: "500m", `{"cpu":2}`: "2", `{"cpu":"0.5"}`: "500m", `{"cpu":"1e3"}`: "1e3", `{"cpu":"-1"}`: "-1", `{"cpu":0}`: "0",
	} {
		got, err := f.Get(parseJSON(t, `{"capacity":`+capacity+`}`))
		require.NoError(t, err)
		cpu := got[corev1.ResourceCPU]
		require.Equal(t, want, cpu.String(), capacity)
	}
	for capacity, want := range map[string]string{
		`[]`:                        "capacity: want object, found list",
		`{"cpu":1.5}`:               "capacity.cpu: want quantity, found number",
		`{"cpu":null}`:              "capacity.cpu: want quantity, found null",
		`{"cpu":true}`:              "capacity.cpu: want quantity, found bool",
		`{"cpu":""}`:                "capacity.cpu: want quantity, found unreadable text",
		`{"b":{},"a":"many","c":1}`: "capacity.a: want quantity, found unreadable text",
	} {
		_, err := f.Get(parseJSON(t, `{"capacity":`+capacity+`}`))
		require.ErrorIs(t, err, contract.ErrWrongType)
		require.EqualError(t, err, want)
	}
}

// The parser of quantities takes hours for some texts that the usual schema allows.
func TestQuantitiesField_ReadsNothingThatTakesForEver(t *testing.T) {
	for _, text := range []string{"1e-2000000000", "1E-2147483648", "1e2000000000", "1e+99999", "1" + string(make([]byte, 1<<20))} {
		done := make(chan error, 1)
		go func() {
			_, err := contract.QuantitiesAt("capacity").Get(map[string]any{"capacity": map[string]any{"cpu": text}})
			done <- err
		}()
		select {
		case err := <-done:
			require.EqualError(t, err, "capacity.cpu: want quantity, found unreadable text")
		case <-time.After(time.Minute):
			t.Fatalf("%.20q is still being parsed", text)
		}
	}
}

func TestTextMapField_ReturnsACopy(t *testing.T) {
	obj := parseJSON(t, `{"labels":{"a":"b"}}`)
	f := contract.TextMapAt("labels")
	got, err := f.Get(obj)
	require.NoError(t, err)
	got["a"] = "changed"
	require.Equal(t, parseJSON(t, `{"labels":{"a":"b"}}`), obj)
	_, err = f.Get(parseJSON(t, `{"labels":"x"}`))
	require.EqualError(t, err, "labels: want object, found string")
}
