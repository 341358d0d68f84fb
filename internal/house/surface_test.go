package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	module = "github.com/machinist-dev/machinist"
	// root is the module's folder as seen from this package: tests run in the folder of their package.
	root = "../.."
)

// source is one Go file of the repository, nested modules included.
type source struct {
	file *ast.File
	// folder is the path of its package below the root.
	folder string
	// test is true for a test file, and example for one with examples of the documentation.
	test, example bool
}

// export is an exported type, function, method, variable or field of a public package, such as "drain Policy.GracePeriod".
type export struct {
	folder, name string
	// isSetting is true for a field of a struct that configures something.
	isSetting bool
	// used is true if another package or an example refers to it; set is true if a program, another package or an example sets it.
	used, set bool
}

func (e *export) String() string { return e.folder + " " + e.name }

// surface has the exports of all public packages. Names of packages are resolved; fields and methods are matched by their name alone, so a
// name that has a user anywhere hides one of the same name that has none.
type surface struct {
	exports []*export
	top     map[string]*export   // by folder and name
	members map[string][]*export // fields and methods by name
}

// readSources parses the Go files of the repository.
func readSources(t *testing.T) []source {
	t.Helper()
	var sources []source
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && (name == "testdata" || strings.HasPrefix(name, ".") && name != ".."):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		sources = append(sources, parse(t, filepath.ToSlash(folder), d.Name(), string(content)))
		return nil
	})
	require.NoError(t, err)
	return sources
}

func parse(t *testing.T, folder, name, content string) source {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), folder+"/"+name, content, parser.SkipObjectResolution)
	require.NoError(t, err)
	test := strings.HasSuffix(name, "_test.go")
	return source{file: parsed, folder: folder, test: test, example: test && strings.HasPrefix(name, "example")}
}

// surfaceOf returns the exports of public packages with whether they have users.
func surfaceOf(sources []source) *surface {
	s := &surface{top: map[string]*export{}, members: map[string][]*export{}}
	names := map[string]string{} // of packages, by folder
	for _, src := range sources {
		if src.test {
			continue
		}
		names[src.folder] = src.file.Name.Name
		if isPublic(src.folder) {
			for _, decl := range src.file.Decls {
				s.declare(src.folder, decl)
			}
		}
	}
	for _, src := range sources {
		s.use(src, names)
	}
	return s
}

func isPublic(folder string) bool {
	top, _, _ := strings.Cut(folder, "/")
	return top != "internal" && top != "examples"
}

func (s *surface) declare(folder string, decl ast.Decl) {
	switch x := decl.(type) {
	case *ast.FuncDecl:
		owner := receiver(x)
		switch {
		case !x.Name.IsExported():
		case x.Recv == nil:
			s.addTop(folder, x.Name.Name)
		case ast.IsExported(owner):
			s.addMember(folder, owner, x.Name.Name, false)
		}
	case *ast.GenDecl:
		for _, spec := range x.Specs {
			s.declareSpec(folder, x.Tok, spec)
		}
	}
}

// declareSpec leaves out constants: reasons and annotations are wire format, whoever refers to them.
func (s *surface) declareSpec(folder string, tok token.Token, spec ast.Spec) {
	switch x := spec.(type) {
	case *ast.ValueSpec:
		for _, id := range x.Names {
			if id.IsExported() && tok == token.VAR {
				s.addTop(folder, id.Name)
			}
		}
	case *ast.TypeSpec:
		if !x.Name.IsExported() {
			return
		}
		s.addTop(folder, x.Name.Name)
		fields, ok := x.Type.(*ast.StructType)
		if !ok {
			return
		}
		for _, group := range fields.Fields.List {
			for _, id := range group.Names {
				if id.IsExported() {
					s.addMember(folder, x.Name.Name, id.Name, configures(x.Name.Name))
				}
			}
		}
	}
}

func (s *surface) addTop(folder, name string) {
	e := &export{folder: folder, name: name}
	s.exports = append(s.exports, e)
	s.top[folder+"."+name] = e
}

func (s *surface) addMember(folder, owner, name string, isSetting bool) {
	e := &export{folder: folder, name: owner + "." + name, isSetting: isSetting}
	s.exports = append(s.exports, e)
	s.members[name] = append(s.members[name], e)
}

// use marks what a file refers to and sets.
func (s *surface) use(src source, names map[string]string) {
	imports := importsOf(src.file, names)
	ast.Inspect(src.file, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.SelectorExpr:
			if id, ok := x.X.(*ast.Ident); ok && imports[id.Name] != "" {
				if e := s.top[imports[id.Name]+"."+x.Sel.Name]; e != nil {
					e.used = e.used || e.folder != src.folder || src.example
				}
			}
			s.useMember(src, x.Sel.Name)
		case *ast.KeyValueExpr:
			if id, ok := x.Key.(*ast.Ident); ok {
				s.useMember(src, id.Name)
				s.set(src, id)
			}
		case *ast.AssignStmt:
			for _, left := range x.Lhs {
				s.set(src, left)
			}
		case *ast.UnaryExpr:
			if x.Op == token.AND {
				s.set(src, x.X)
			}
		}
		return true
	})
}

// importsOf returns the folders of this module that a file imports, by their names in it.
func importsOf(file *ast.File, names map[string]string) map[string]string {
	imports := map[string]string{}
	for _, spec := range file.Imports {
		folder, ours := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), module+"/")
		if !ours {
			continue
		}
		local := names[folder]
		if spec.Name != nil {
			local = spec.Name.Name
		}
		imports[local] = folder
	}
	return imports
}

func (s *surface) useMember(src source, name string) {
	for _, e := range s.members[name] {
		e.used = e.used || e.folder != src.folder || src.example
	}
}

func (s *surface) set(src source, target ast.Expr) {
	var name string
	switch x := target.(type) {
	case *ast.Ident:
		name = x.Name
	case *ast.SelectorExpr:
		name = x.Sel.Name
	}
	for _, e := range s.members[name] {
		e.set = e.set || !src.test && e.folder != src.folder || src.example
	}
}

// receiver returns the name of the type of a method.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	for t := f.Recv.List[0].Type; ; {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// configures reports whether a struct is one that configures something, by its name.
func configures(name string) bool {
	for _, end := range []string{"Options", "Policy", "Limits"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	switch name {
	case "Config", "Ports", "Rules", "Wiring":
		return true
	}
	return false
}
