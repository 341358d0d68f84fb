package userdata

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Names of the built-in systems.
const (
	Ubuntu2404 = "ubuntu-24.04"
	Flatcar    = "flatcar"
	RHEL9      = "rhel-9"
	Rocky9     = "rocky-9"
)

//go:embed templates
var embedded embed.FS

// Names returns the names of the built-in systems, sorted.
func Names() []string { return []string{Flatcar, RHEL9, Rocky9, Ubuntu2404} }

// Templates returns the templates of the built-in systems, to copy or overlay: a manifest NAME.json for each system, and folders with the
// sources that the manifests list.
func Templates() (fs.FS, error) { return fs.Sub(embedded, "templates") }

// Builtin returns the built-in system with a name.
func Builtin(name string) (System, error) {
	if !slices.Contains(Names(), name) {
		return System{}, fmt.Errorf("there is no system %q: take one of %s, or Load your own", name, strings.Join(Names(), ", "))
	}
	templates, err := Templates()
	if err != nil {
		return System{}, err
	}
	return Load(templates, name+".json")
}

// System contains the first-boot templates of an operating system. The zero value has none. Safe for concurrent use.
type System struct {
	manifest manifest
	sources  map[string]source
}

// Name returns the name in the manifest.
func (s System) Name() string { return s.manifest.Name }

// Format returns the format that the image reads.
func (s System) Format() Format { return s.manifest.Format }

// Versions returns the minor versions of Kubernetes that the templates support, such as v1.36.
func (s System) Versions() []string { return slices.Clone(s.manifest.Versions) }

// manifest is the JSON of a system.
type manifest struct {
	Name     string   `json:"name"`
	Format   Format   `json:"format"`
	Versions []string `json:"versions"`
	// Include is another manifest, whose files and units come first.
	Include string            `json:"include"`
	Values  map[string]string `json:"values"`
	Files   []fileTemplate    `json:"files"`
	Units   []unitTemplate    `json:"units"`
}

type fileTemplate struct {
	Path   string `json:"path"`
	Mode   string `json:"mode"`
	Source string `json:"source"`
	// When is the name of a condition, empty for always. Stage is first, both, or empty for the second of two stages.
	When  string `json:"when"`
	Stage string `json:"stage"`
	// Merge is kubelet for the file into which Config.Kubelet is merged.
	Merge string `json:"merge"`
}

type unitTemplate struct {
	Name   string `json:"name"`
	Source string `json:"source"`
	Enable bool   `json:"enable"`
	Mask   bool   `json:"mask"`
	Stage  string `json:"stage"`
}

const (
	stageFirst = "first"
	stageBoth  = "both"
)

// Load reads a system from a manifest and the sources that it lists, whose paths are relative to the root of fsys. The extension of a
// source selects how its values are quoted: .env, .json, .toml and .pem have their own quoting, .conf and .service accept plain values
// only, and .sh is a script without values. Errors name the file.
//
// Sources are text/template with the fields of a Config, with defaults, and derived values: Minor (v1.36), System (the values of the
// manifest), Taints (with the uninitialized one), FetchURL, HasIPv4, HasIPv6, KubeletArgs, FindNodeIPs, NoProxy, and NetworkMethod,
// NetworkAddresses, NetworkGateways and NetworkDNS of IPv4 or IPv6.
func Load(fsys fs.FS, name string) (System, error) {
	m, err := readManifest(fsys, name)
	if err != nil {
		return System{}, err
	}
	if m.Include != "" {
		included, err := readManifest(fsys, m.Include)
		if err != nil {
			return System{}, err
		}
		m.Files, m.Units = slices.Concat(included.Files, m.Files), slices.Concat(included.Units, m.Units)
	}
	if err := m.check(); err != nil {
		return System{}, fmt.Errorf("%s: %w", name, err)
	}
	s := System{manifest: m, sources: map[string]source{}}
	for _, from := range m.sources() {
		text, err := fs.ReadFile(fsys, from)
		if err == nil {
			s.sources[from], err = parseSource(from, string(text))
		}
		if err != nil {
			return System{}, fmt.Errorf("%s: %w", name, err)
		}
	}
	return s, nil
}

func readManifest(fsys fs.FS, name string) (manifest, error) {
	content, err := fs.ReadFile(fsys, name)
	if err != nil {
		return manifest{}, err
	}
	var m manifest
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&m); err != nil {
		return manifest{}, fmt.Errorf("%s: %w", name, err)
	}
	return m, nil
}

func (m manifest) sources() []string {
	var sources []string
	for _, f := range m.Files {
		sources = append(sources, f.Source)
	}
	for _, u := range m.Units {
		if u.Source != "" {
			sources = append(sources, u.Source)
		}
	}
	return sources
}

// check reports problems that would make a later rendering fail.
func (m manifest) check() error {
	if m.Format != CloudConfig && m.Format != Ignition {
		return fmt.Errorf("format %q is not %s or %s", m.Format, CloudConfig, Ignition)
	}
	for _, f := range m.Files {
		if conditions()[f.When] == nil {
			return fmt.Errorf("%s: there is no condition %q", f.Path, f.When)
		}
		if _, err := f.mode(); err != nil {
			return fmt.Errorf("%s: the mode %q is not octal", f.Path, f.Mode)
		}
		if err := checkPath(f.Path); err != nil {
			return fmt.Errorf("%q: %w", f.Path, err)
		}
		if !validStage(f.Stage) {
			return fmt.Errorf("%s: stage %q is not %s, %s or empty", f.Path, f.Stage, stageFirst, stageBoth)
		}
	}
	for _, u := range m.Units {
		if !validStage(u.Stage) || u.Name != path.Base(u.Name) || u.Mask == (u.Source != "") {
			return fmt.Errorf("unit %q needs a name, a source or mask, and the stage %s, %s or none", u.Name, stageFirst, stageBoth)
		}
	}
	return nil
}

func validStage(stage string) bool { return stage == "" || stage == stageFirst || stage == stageBoth }

func (f fileTemplate) mode() (fs.FileMode, error) {
	mode, err := strconv.ParseUint(f.Mode, 8, 9)
	return fs.FileMode(mode), err
}

// conditions are the conditions that a file of a manifest can have.
func conditions() map[string]func(*values) bool {
	return map[string]func(*values) bool{
		"":         func(*values) bool { return true },
		"network":  func(v *values) bool { return v.Network != nil },
		"proxy":    func(v *values) bool { return !v.Proxy.HTTP.IsZero() || !v.Proxy.HTTPS.IsZero() },
		"hostCAs":  func(v *values) bool { return v.HostCAs != "" },
		"nodeName": func(v *values) bool { return v.Node.Name != "" },
	}
}
