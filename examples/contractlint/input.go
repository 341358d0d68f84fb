package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// document is one object and where it came from.
type document struct {
	*unstructured.Unstructured
	// file is its file, "-" for standard input.
	file string
	// searched documents were found in a folder and not named.
	searched bool
}

// source names the document's origin for people.
func (d document) source() string {
	if d.file == stdinName {
		return "standard input"
	}
	return d.file
}

func (d document) isCRD() bool { return d.GetKind() == "CustomResourceDefinition" }

const stdinName = "-"

// input is what was read of the arguments. Errors do not stop reading, so that one run names them all.
type input struct {
	stdin     io.Reader
	documents []document
	warnings  []string
	errs      []error
}

// read adds the documents of one argument.
func (in *input) read(path string) {
	documents, err := in.open(path)
	if err != nil {
		in.errs = append(in.errs, err)
	}
	in.documents = append(in.documents, documents...)
}

func (in *input) open(path string) ([]document, error) {
	if path == stdinName {
		raw, err := io.ReadAll(in.stdin)
		if err != nil {
			return nil, fmt.Errorf("read standard input: %w", err)
		}
		return decode(raw, stdinName)
	}
	path = filepath.Clean(path)
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read input: %w", err)
	case info.IsDir() && hasKustomization(path):
		return nil, notBuilt(path)
	case info.IsDir():
		return in.folder(path)
	case isKustomization(path):
		return nil, notBuilt(filepath.Dir(path))
	default:
		return file(path)
	}
}

// notBuilt is the error for a kustomize folder: its files lack the labels and the patches of the kustomization.
func notBuilt(dir string) error {
	return fmt.Errorf("%s has a kustomization, which only kustomize can build: run kustomize build %s | contractlint -", dir, dir)
}

func isKustomization(path string) bool {
	return slices.Contains([]string{"kustomization.yaml", "kustomization.yml", "Kustomization"}, filepath.Base(path))
}

func hasKustomization(dir string) bool {
	entries, err := os.ReadDir(dir)
	return err == nil && slices.ContainsFunc(entries, func(entry fs.DirEntry) bool { return !entry.IsDir() && isKustomization(entry.Name()) })
}

// folder searches a folder for YAML, whatever else it holds. A template of another tool is no YAML and is passed over with a warning; any
// other file that cannot be read is an error.
func (in *input) folder(dir string) ([]document, error) {
	var documents []document
	var errs []error
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		hidden := strings.HasPrefix(entry.Name(), ".") && path != dir
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (hidden || slices.Contains([]string{"vendor", "node_modules", "testdata"}, entry.Name())):
			return filepath.SkipDir
		case entry.IsDir() || hidden || !slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(path)):
			return nil
		}
		found, err := in.searched(path)
		if err != nil {
			errs = append(errs, err)
		}
		documents = append(documents, found...)
		return nil
	})
	return documents, errors.Join(append(errs, err)...)
}

// templateAction matches a text of which a line or a value begins with an action of Go's templates. A description that only mentions one
// does not count.
var templateAction = regexp.MustCompile(`(?m)^[ \t-]*(\S+: +)?["']?\{\{`)

// searched reads a file that is not named by an argument.
func (in *input) searched(path string) ([]document, error) {
	raw, err := os.ReadFile(path) //nolint:gosec // the person who runs this names the folder
	if err != nil {
		return nil, err
	}
	documents, err := decode(raw, path)
	if err != nil && templateAction.Match(raw) {
		in.warnings = append(in.warnings, path+" is a template and no YAML: it was not read")
		err = nil
	}
	for i := range documents {
		documents[i].searched = true
	}
	return documents, err
}

// file reads one file.
func file(path string) ([]document, error) {
	raw, err := os.ReadFile(path) //nolint:gosec // the person who runs this names the files
	if err != nil {
		return nil, fmt.Errorf("read input: %w", err)
	}
	return decode(raw, path)
}

// decode reads the objects of a text: YAML or JSON, one document or many, lists taken apart.
func decode(raw []byte, file string) ([]document, error) {
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), 4096)
	var documents []document
	for n := 1; ; n++ {
		var text json.RawMessage
		err := decoder.Decode(&text)
		if errors.Is(err, io.EOF) {
			return documents, nil
		}
		var value any
		if err == nil && len(text) > 0 {
			err = utiljson.Unmarshal(text, &value) // whole numbers become int64, as unstructured content wants them
		}
		if err != nil {
			return documents, fmt.Errorf("read document %d of %s: %w", n, file, err)
		}
		for _, object := range objectsOf(value, 0) {
			documents = append(documents, document{Unstructured: &unstructured.Unstructured{Object: object}, file: file})
		}
	}
}

// objectsOf takes lists apart. What has no kind is no object: values files and the configuration of other tools.
func objectsOf(value any, depth int) []map[string]any {
	object, ok := value.(map[string]any)
	kind, named := object["kind"].(string)
	if !ok || !named || depth > 3 {
		return nil
	}
	items, isList := object["items"].([]any)
	if !isList || !strings.HasSuffix(kind, "List") {
		return []map[string]any{object}
	}
	var objects []map[string]any
	for _, item := range items {
		objects = append(objects, objectsOf(item, depth+1)...)
	}
	return objects
}
