package house

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the generated parts of documents and the record of exports, instead of comparing them")

// apiFile has what a package exports, a line each, below the package's folder. A review shows changes of the API as changes of it.
const apiFile = "testdata/api.txt"

func TestExportedAPI(t *testing.T) {
	api := map[string][]string{}
	for _, src := range readSources(t) {
		if isPublic(src.folder) && !src.test {
			api[src.folder] = append(api[src.folder], apiLines(src.file)...)
		}
	}
	for folder, lines := range api {
		slices.Sort(lines)
		file, want := filepath.Join(root, folder, apiFile), strings.Join(lines, "\n")+"\n"
		if *update {
			require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o750))
			require.NoError(t, os.WriteFile(file, []byte(want), 0o600))
			continue
		}
		have, err := os.ReadFile(file)
		require.NoError(t, err, "run `make generate`")
		if diff := cmp.Diff(string(have), want); diff != "" {
			t.Errorf("%s/%s differs from what the package exports; run `make generate` (-recorded +exported):\n%s", folder, apiFile, diff)
		}
	}
}

// apiLines returns a line for each exported constant, variable, function, method, type and field of a file.
func apiLines(file *ast.File) []string {
	var lines []string
	for _, decl := range file.Decls {
		switch x := decl.(type) {
		case *ast.FuncDecl:
			if owner := receiver(x); x.Name.IsExported() && (owner == "" || ast.IsExported(owner)) {
				lines = append(lines, strings.TrimSpace("func "+received(x)+x.Name.Name+strings.TrimPrefix(printed(x.Type), "func")))
			}
		case *ast.GenDecl:
			for _, spec := range x.Specs {
				lines = append(lines, specLines(x.Tok, spec)...)
			}
		}
	}
	return lines
}

func specLines(tok token.Token, spec ast.Spec) []string {
	var lines []string
	switch x := spec.(type) {
	case *ast.ValueSpec:
		for _, id := range x.Names {
			if id.IsExported() {
				lines = append(lines, tok.String()+" "+id.Name)
			}
		}
	case *ast.TypeSpec:
		if !x.Name.IsExported() {
			return nil
		}
		fields, isStruct := x.Type.(*ast.StructType)
		if !isStruct {
			return []string{"type " + printed(x)}
		}
		lines = append(lines, "type "+x.Name.Name+" struct")
		for _, field := range fields.Fields.List {
			for _, id := range field.Names {
				if id.IsExported() {
					lines = append(lines, fmt.Sprintf("field %s.%s %s", x.Name.Name, id.Name, printed(field.Type)))
				}
			}
			if len(field.Names) == 0 {
				lines = append(lines, fmt.Sprintf("field %s embeds %s", x.Name.Name, printed(field.Type)))
			}
		}
	}
	return lines
}

// received returns the receiver of a method, such as "(*Runner) ".
func received(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	return "(" + printed(f.Recv.List[0].Type) + ") "
}

// printed returns a declaration in one line, without comments.
func printed(node ast.Node) string {
	var out bytes.Buffer
	if err := printer.Fprint(&out, token.NewFileSet(), node); err != nil {
		return err.Error()
	}
	return strings.Join(strings.Fields(out.String()), " ")
}

func TestAPILines(t *testing.T) {
	src := parse(t, "drain", "drain.go", `package drain
const Limit, hidden = 3, 4
type Plan[T any] struct { Inner; Pods []T; secret int }
type Inner struct{}
type Port interface { Get(name string) (bool, error) }
func (p *Plan[T]) Len(of int) int { return 0 }
func (hiddenType) Len() {}
func New[T any](all ...T) *Plan[T] { return nil }
func help() {}
var ErrPlan error
type Name = string`)
	want := []string{"const Limit", "type Plan struct", "field Plan embeds Inner", "field Plan.Pods []T", "type Inner struct",
		"type Port interface { Get(name string) (bool, error) }", "func (*Plan[T]) Len(of int) int", "func New[T any](all ...T) *Plan[T]",
		"var ErrPlan", "type Name = string"}
	if diff := cmp.Diff(want, apiLines(src.file)); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}
