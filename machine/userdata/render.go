package userdata

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// Format is the format of a document.
type Format string

// Formats. The first two are formats of the bootstrap contract's data secret.
const (
	// CloudConfig is cloud-init's format: JSON, which is YAML as well, after the line #cloud-config.
	CloudConfig Format = "cloud-config"
	// Ignition is version 3.3.0 of Ignition's JSON.
	Ignition Format = "ignition"
	// Script is a shell script; the second of two stages is one.
	Script Format = "script"
)

// SentinelFile exists once the kubelet has joined the cluster. Rule: Cluster API's bootstrap contract.
const SentinelFile = "/run/cluster-api/bootstrap-success.complete"

// Render returns the document with which a machine of this system boots for the first time and joins its cluster. It is pure: equal input
// gives equal bytes. The error joins all problems of the Config, each with the path of its field, or names the template that cannot be
// rendered. No error contains a value of the Config.
func Render(system System, config Config) (Document, error) {
	if err := system.validate(config); err != nil {
		return Document{}, err
	}
	v := valuesOf(system, config)
	return system.render(&v, "", system.Format())
}

func (s System) render(v *values, stage string, format Format) (Document, error) {
	b, err := s.boot(v, stage)
	if err != nil {
		return Document{}, err
	}
	return b.document(format)
}

// boot is the content of a first boot, independent of the format.
type boot struct {
	hostName, user string
	keys           []string
	files          []File
	units          []unit
}

// boot renders the templates of a stage. The empty stage excludes templates of the first of two stages.
func (s System) boot(v *values, stage string) (boot, error) {
	b := boot{hostName: v.Node.Name, user: v.System["user"], keys: slices.Clone(v.SSHKeys)}
	var errs []error
	for _, f := range s.manifest.Files {
		if !inStage(f.Stage, stage) || !conditions()[f.When](v) {
			continue
		}
		file, err := s.file(f, v)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", f.Path, err))
		}
		b.files = put(b.files, file)
	}
	for _, u := range s.manifest.Units {
		if !inStage(u.Stage, stage) {
			continue
		}
		text, err := s.sources[u.Source].render(v) // a masked unit has no source
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", u.Name, err))
		}
		b.units = append(b.units, unit{Name: u.Name, Enabled: u.Enable, Mask: u.Mask, Contents: text})
	}
	if stage == "" {
		for _, f := range v.Files {
			b.files = put(b.files, f)
		}
	}
	return b, errors.Join(errs...)
}

func inStage(of, stage string) bool { return of == stageBoth || of == stage }

// put adds a file, or replaces the file with the same path.
func put(files []File, f File) []File {
	if f.Mode == 0 {
		f.Mode = 0o600
	}
	if i := slices.IndexFunc(files, func(other File) bool { return other.Path == f.Path }); i >= 0 {
		files[i] = f
		return files
	}
	return append(files, f)
}

func (s System) file(f fileTemplate, v *values) (File, error) {
	text, err := s.sources[f.Source].render(v)
	if err == nil && f.Merge == "kubelet" {
		text, err = mergeJSON(text, v.Kubelet)
	}
	mode, _ := f.mode() // Load has checked it
	return File{Path: f.Path, Mode: mode, Content: NewSecret(text)}, err
}

// mergeJSON applies a JSON merge patch (RFC 7386), which is an object or empty.
func mergeJSON(text string, patch json.RawMessage) (string, error) {
	var contents [2]any
	for i, part := range []string{text, cmp.Or(string(patch), "{}")} {
		decoder := json.NewDecoder(strings.NewReader(part))
		decoder.UseNumber()
		if decoder.Decode(&contents[i]) != nil {
			return "", errors.New("the template does not render to JSON")
		}
	}
	return encode(merged(contents[0], contents[1]), "  ")
}

func merged(target, patch any) any {
	changes, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	result, ok := target.(map[string]any)
	if !ok {
		result = map[string]any{}
	}
	for key, change := range changes {
		if change == nil {
			delete(result, key)
			continue
		}
		result[key] = merged(result[key], change)
	}
	return result
}

// fileMode formats a mode for cloud-init and shells.
func fileMode(mode fs.FileMode) string { return fmt.Sprintf("%04o", uint32(mode.Perm())) }
