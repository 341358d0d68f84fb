package userdata_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"testing/fstest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/machine/userdata"
)

func exampleConfig() userdata.Config {
	ca, _ := os.ReadFile("testdata/ca.pem") // without it Render names the missing field
	return userdata.Config{
		Version: "v1.36.3",
		Cluster: userdata.Cluster{Server: "https://192.0.2.1:6443", CA: string(ca), Token: userdata.NewSecret("abcdef.0123456789abcdef")},
		Node: userdata.Node{Name: "worker-7", Labels: map[string]string{"example.com/pool": "green"},
			Taints: []corev1.Taint{{Key: "example.com/gpu", Effect: corev1.TaintEffectNoSchedule}}},
	}
}

// A document is rendered, made small enough for a cloud, and can be read back.
func Example() {
	system, err := userdata.Builtin(userdata.Flatcar)
	if err != nil {
		fmt.Println(err)
		return
	}
	doc, err := userdata.Render(system, exampleConfig())
	if err != nil {
		fmt.Println(err)
		return
	}
	aws := userdata.Budget{Bytes: 16 << 10, Binary: true}
	if doc, err = doc.Fit(aws); err != nil {
		fmt.Println(err)
		return
	}
	joined, err := userdata.Parse(doc.Bytes())
	fmt.Println(doc.Format(), doc.Size() <= aws.Bytes, joined.NodeName, joined.Labels, err)
	for _, taint := range joined.Taints {
		fmt.Println(taint.ToString())
	}
	fmt.Println(joined.Kubeconfig)
	// Output:
	// ignition true worker-7 map[example.com/pool:green] <nil>
	// example.com/gpu:NoSchedule
	// node.cluster.x-k8s.io/uninitialized:NoSchedule
	// REDACTED
}

// A log of your own that encodes what it gets has no first-boot data and no tokens in it.
func ExampleSecret() {
	system, err := userdata.Builtin(userdata.Ubuntu2404)
	if err != nil {
		fmt.Println(err)
		return
	}
	config := exampleConfig()
	config.Node.OmitUninitialized = true // nothing in this cluster removes the taint: its Nodes would wait for ever
	doc, err := userdata.Render(system, config)
	if err != nil {
		fmt.Println(err)
		return
	}
	joined, err := userdata.Parse(doc.Bytes())
	fmt.Println(len(joined.Taints), err)
	text, err := config.Cluster.Token.MarshalText()
	fmt.Println(string(text), err)
	fmt.Println(doc.String() == fmt.Sprintf("cloud-config document of %d bytes", doc.Size()))
	// Output:
	// 1 <nil>
	// REDACTED <nil>
	// true
}

// In two stages, the cloud gets a small document, and the cluster has the rest.
func ExampleRenderStages() {
	system, err := userdata.Builtin(userdata.Ubuntu2404)
	if err != nil {
		fmt.Println(err)
		return
	}
	stages, err := userdata.RenderStages(system, exampleConfig(), types.NamespacedName{Namespace: "first-boot", Name: "worker-7"})
	if err != nil {
		fmt.Println(err)
		return
	}
	rule := stages.Role.Rules[0]
	fmt.Println(stages.RoleBinding.Subjects[0].Name, "may", rule.Verbs, rule.Resources, rule.ResourceNames)
	fmt.Println(stages.Secret.Name, string(stages.Secret.Data["format"]), stages.First.Size() < 8<<10)
	// Output:
	// system:bootstrap:abcdef may [get] [secrets] [worker-7]
	// worker-7 script true
}

// overlay has files in the place of some of another file system.
type overlay struct {
	fs.FS

	files fstest.MapFS
}

func (o overlay) Open(name string) (fs.File, error) {
	if o.files[name] != nil {
		return o.files.Open(name)
	}
	return o.FS.Open(name)
}

// Machines without a way to the internet take packages from a mirror, and a cloud of your own has its own limit.
func ExampleTemplates() {
	templates, err := userdata.Templates()
	if err != nil {
		fmt.Println(err)
		return
	}
	manifest, err := fs.ReadFile(templates, "ubuntu-24.04.json")
	if err != nil {
		fmt.Println(err)
		return
	}
	mirrored := bytes.ReplaceAll(manifest, []byte("https://pkgs.k8s.io/"), []byte("https://mirror.example.com/"))
	system, err := userdata.Load(overlay{templates, fstest.MapFS{"mirrored.json": {Data: mirrored}}}, "mirrored.json")
	if err != nil {
		fmt.Println(err)
		return
	}
	doc, err := userdata.Render(system, exampleConfig())
	if err != nil {
		fmt.Println(err)
		return
	}
	small, err := doc.Fit(userdata.Budget{Bytes: 6 << 10, Binary: true})
	fmt.Println(bytes.Contains(doc.Bytes(), []byte("https://mirror.example.com/core:/stable:")), small.Size() < doc.Size(), err)
	// Output:
	// true true <nil>
}

// A system of your own is a manifest and templates. Values are quoted by the language of the file.
func ExampleLoad() {
	system, err := userdata.Load(fstest.MapFS{
		"own.json": {Data: []byte(`{"name": "own", "format": "cloud-config", "versions": ["v1.36"], "files": [
			{"path": "/etc/own.env", "mode": "0600", "source": "own.env"},
			{"path": "/opt/own.sh", "mode": "0700", "source": "own.sh"}]}`)},
		"own.env": {Data: []byte("GREETING={{ .Parameters.greeting }}\n")},
		"own.sh":  {Data: []byte("source /etc/own.env\necho \"$GREETING\"\n")},
	}, "own.json")
	if err != nil {
		fmt.Println(err)
		return
	}
	config := exampleConfig()
	config.Parameters = map[string]userdata.Secret{"greeting": userdata.NewSecret(`"$(reboot)"`)}
	doc, err := userdata.Render(system, config)
	if err != nil {
		fmt.Println(err)
		return
	}
	files, err := userdata.Files(doc.Bytes())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(files[0].Content.Reveal())
	// Output:
	// GREETING="\"\$(reboot)\""
}
