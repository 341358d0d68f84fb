package scale_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/machineset/scale"
)

func TestPreflight_HoldsCreationWhileTheControlPlaneCannotTakeMachines(t *testing.T) {
	t.Parallel()
	type facts = scale.PreflightFacts
	stable := facts{DesiredVersion: "v1.36.3", CurrentVersion: "v1.36.3", Version: "v1.36.3"}
	with := func(change func(*facts)) facts {
		f := stable
		change(&f)
		return f
	}
	for name, c := range map[string]struct {
		facts facts
		want  []string
	}{
		"stable":                  {stable, nil},
		"no control plane to ask": {facts{Version: "nonsense"}, nil},
		"being provisioned":       {with(func(f *facts) { f.CurrentVersion = "" }), []string{"ControlPlaneIsStable"}},
		"being upgraded":          {with(func(f *facts) { f.CurrentVersion = "v1.35.9" }), []string{"ControlPlaneIsStable"}},
		"rebuilt": {with(func(f *facts) { f.CurrentVersion = "v1.36.3+k1"; f.DesiredVersion = "v1.36.3+k2" }),
			[]string{"ControlPlaneIsStable"}},
		"some machines are ahead":    {with(func(f *facts) { f.CurrentVersion = "v1.37.0" }), nil},
		"Machines too new":           {with(func(f *facts) { f.Version = "v1.37.0" }), []string{"KubernetesVersionSkew"}},
		"three minors older":         {with(func(f *facts) { f.Version = "v1.33.0" }), nil},
		"four minors older":          {with(func(f *facts) { f.Version = "v1.32.9" }), []string{"KubernetesVersionSkew"}},
		"another major":              {with(func(f *facts) { f.Version = "v2.36.3" }), []string{"KubernetesVersionSkew"}},
		"kubeadm of another minor":   {with(func(f *facts) { f.Version, f.Kubeadm = "v1.35.0", true }), []string{"KubeadmVersionSkew"}},
		"kubeadm of another patch":   {with(func(f *facts) { f.Version, f.Kubeadm = "v1.36.0", true }), nil},
		"Machines without a version": {with(func(f *facts) { f.Version = "" }), nil},
		"a managed control plane names no patch": {
			facts{DesiredVersion: "v1.36", CurrentVersion: "v1.36", Version: "v1.36"}, nil},
		"a distribution reports its own release": {with(func(f *facts) {
			f.DesiredVersion, f.CurrentVersion, f.Version = "v1.33.1", "v1.33.1-k0s.0", "v1.33.1"
		}), nil},
		"a managed control plane reports a patch": {with(func(f *facts) { f.DesiredVersion, f.CurrentVersion = "1.36", "v1.36.3-eks-1" }), nil},
		"a managed control plane is upgraded": {with(func(f *facts) { f.DesiredVersion, f.CurrentVersion = "v1.36", "v1.35" }),
			[]string{"ControlPlaneIsStable"}},
		"everything at once": {facts{DesiredVersion: "v1.36.3", Version: "v1.30.0", Kubeadm: true},
			[]string{"ControlPlaneIsStable", "KubeadmVersionSkew", "KubernetesVersionSkew"}},
		"all left out": {facts{DesiredVersion: "nonsense", Skip: "X, All"}, nil},
		"some left out": {with(func(f *facts) {
			f.CurrentVersion, f.Version, f.Skip = "", "v1.37.0", "ControlPlaneIsStable , KubeadmVersionSkew"
		}),
			[]string{"KubernetesVersionSkew"}},
	} {
		holds, err := scale.Preflight(c.facts)
		require.NoError(t, err, name)
		var got []string
		for _, h := range holds {
			require.NotEmpty(t, h.Message)
			got = append(got, h.Reason)
		}
		require.Equal(t, c.want, got, name)
	}
}

func TestPreflight_ReadsTheVersionsThatClusterAPIReads(t *testing.T) {
	t.Parallel()
	const padded = " v1.36.3 "
	for version, good := range map[string]bool{
		padded: true, "v1.36.3": true, "1.36.3": true, "v1.36": true, "1.36": true, "v1.36.3-eks-1": true, "v1.36.3+k1": true,
		"v1.36.3-rc.1+k1": true,
		"v1.25.6.0":       false, "v1.26.0garbage": false, "v1.36-eks-1": false, "v1.36.": false, "v1..3": false, "v1.36.3-": false,
		"latest": false,
		"v":      false,
	} {
		_, err := scale.Preflight(scale.PreflightFacts{DesiredVersion: version, CurrentVersion: version, Version: version})
		require.Equal(t, good, err == nil, "%q: %v", version, err)
	}
}

func TestPreflight_AVersionThatCannotBeReadIsAnError(t *testing.T) {
	t.Parallel()
	f := scale.PreflightFacts{DesiredVersion: "v1.36.3", CurrentVersion: "v1.36.3", Version: "v1.36.3"}
	for want, change := range map[string]func(*scale.PreflightFacts){
		"version of the control plane":           func(f *scale.PreflightFacts) { f.DesiredVersion = "latest" },
		"version that the control plane reports": func(f *scale.PreflightFacts) { f.CurrentVersion = "latest" },
		"version of the Machines":                func(f *scale.PreflightFacts) { f.Version = "latest" },
	} {
		broken := f
		change(&broken)
		holds, err := scale.Preflight(broken)
		require.ErrorContains(t, err, want)
		require.Empty(t, holds)
	}
}
