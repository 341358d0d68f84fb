package contract_test

import (
	"fmt"
	"go/types"
	"regexp"
	"slices"
	"strings"
)

// The exported API of a package as text, in the manner of the Go project's own api/go1.txt: one line for each thing that code outside
// can rely on, so that a promise is broken exactly when a line goes. Names of parameters and fields that are not exported are no
// promise. An interface that others implement stands in one line with its methods, since one more breaks them; an interface
// with unexported methods may grow. golang.org/x/exp/apidiff judges two loaded packages in more detail, but has no text to review.

// apiLines returns what a package exports, sorted.
func apiLines(pkg *types.Package) []string {
	w := &apiWriter{pkg: pkg, paths: map[string]string{}}
	for _, name := range pkg.Scope().Names() {
		if obj := pkg.Scope().Lookup(name); obj.Exported() {
			w.object(obj)
		}
	}
	for name, path := range w.paths {
		if name != path {
			w.add("import %s %q", name, path)
		}
	}
	slices.Sort(w.lines)
	return slices.Compact(w.lines)
}

type apiWriter struct {
	pkg   *types.Package
	paths map[string]string // by the names that lines call packages by
	lines []string
}

func (w *apiWriter) add(format string, args ...any) {
	w.lines = append(w.lines, fmt.Sprintf(format, args...))
}

func (w *apiWriter) object(obj types.Object) {
	switch obj := obj.(type) {
	case *types.Const:
		w.add("const %s %s = %s", obj.Name(), w.typ(obj.Type()), obj.Val().ExactString())
	case *types.Var:
		w.add("var %s %s", obj.Name(), w.typ(obj.Type()))
	case *types.Func:
		w.add("func %s%s", obj.Name(), w.signature(obj.Signature()))
	case *types.TypeName:
		w.typeName(obj)
	}
}

func (w *apiWriter) typeName(obj *types.TypeName) {
	if alias, ok := obj.Type().(*types.Alias); ok {
		w.add("type %s%s = %s", obj.Name(), w.params(alias.TypeParams()), w.typ(alias.Rhs()))
		return
	}
	named, ok := obj.Type().(*types.Named)
	if !ok {
		w.add("type %s = %s", obj.Name(), w.typ(obj.Type()))
		return
	}
	head := obj.Name() + w.params(named.TypeParams())
	switch under := named.Underlying().(type) {
	case *types.Struct:
		w.add("type %s struct", head)
		if types.Comparable(named) {
			w.add("type %s struct, comparable", head) // == and map keys
		}
		w.fields(head, under)
	case *types.Interface:
		w.iface(head, under)
	default:
		w.add("type %s %s", head, w.typ(under))
	}
	if !types.IsInterface(named) {
		w.methods(named)
	}
}

// fields includes what structs that are embedded and not exported lend.
func (w *apiWriter) fields(head string, s *types.Struct) {
	for field := range s.Fields() {
		inner, isStruct := field.Type().Underlying().(*types.Struct)
		switch {
		case field.Embedded() && field.Exported():
			w.add("type %s struct, embedded %s", head, w.typ(field.Type()))
		case field.Exported():
			w.add("type %s struct, %s %s", head, field.Name(), w.typ(field.Type()))
		case field.Embedded() && isStruct:
			w.fields(head, inner)
		}
	}
}

func (w *apiWriter) iface(head string, i *types.Interface) {
	var parts, lines []string
	sealed := false
	for embedded := range i.EmbeddedTypes() {
		parts = append(parts, w.typ(embedded))
	}
	for method := range i.ExplicitMethods() {
		if !method.Exported() {
			sealed = true
			continue
		}
		parts = append(parts, method.Name())
		lines = append(lines, fmt.Sprintf("type %s interface, %s%s", head, method.Name(), w.signature(method.Signature())))
	}
	if sealed {
		w.add("type %s interface, with unexported methods", head)
	} else {
		slices.Sort(parts)
		w.add("type %s interface { %s }", head, strings.Join(parts, "; "))
	}
	w.lines = append(w.lines, lines...)
}

// methods are those that the package declares, also on what is embedded and not exported.
func (w *apiWriter) methods(named *types.Named) {
	set := types.NewMethodSet(types.NewPointer(named))
	for selection := range set.Methods() {
		method, ok := selection.Obj().(*types.Func)
		if !ok || !method.Exported() || lentByExported(named, selection.Index()) {
			continue
		}
		star := "*"
		if types.NewMethodSet(named).Lookup(w.pkg, method.Name()) != nil {
			star = ""
		}
		w.add("method (%s%s) %s%s", star, w.typ(named), method.Name(), w.signature(method.Signature()))
	}
}

// lentByExported is true for a method of an exported embedded field: the line of the field is the promise.
func lentByExported(named *types.Named, index []int) bool {
	s, ok := named.Underlying().(*types.Struct)
	return ok && len(index) > 1 && s.Field(index[0]).Exported()
}

func (w *apiWriter) params(list *types.TypeParamList) string {
	var params []string
	for p := range list.TypeParams() {
		params = append(params, p.Obj().Name()+" "+w.typ(p.Constraint()))
	}
	if len(params) == 0 {
		return ""
	}
	return "[" + strings.Join(params, ", ") + "]"
}

func (w *apiWriter) signature(s *types.Signature) string {
	results := w.tuple(s.Results(), false)
	switch s.Results().Len() {
	case 0:
		results = ""
	case 1:
		results = " " + results
	default:
		results = " (" + results + ")"
	}
	return w.params(s.TypeParams()) + "(" + w.tuple(s.Params(), s.Variadic()) + ")" + results
}

func (w *apiWriter) tuple(tuple *types.Tuple, variadic bool) string {
	var parts []string
	for v := range tuple.Variables() {
		parts = append(parts, w.typ(v.Type()))
	}
	if last := len(parts) - 1; variadic {
		parts[last] = "..." + strings.TrimPrefix(parts[last], "[]")
	}
	return strings.Join(parts, ", ")
}

// typ writes a type without the names of parameters, which types.TypeString would print.
func (w *apiWriter) typ(t types.Type) string {
	switch t := t.(type) {
	case *types.Pointer:
		return "*" + w.typ(t.Elem())
	case *types.Slice:
		return "[]" + w.typ(t.Elem())
	case *types.Array:
		return fmt.Sprintf("[%d]%s", t.Len(), w.typ(t.Elem()))
	case *types.Map:
		return "map[" + w.typ(t.Key()) + "]" + w.typ(t.Elem())
	case *types.Signature:
		return "func" + w.signature(t)
	case *types.Named:
		return w.qualified(t.Obj()) + w.arguments(t.TypeArgs(), t.TypeParams())
	case *types.Alias:
		return w.qualified(t.Obj()) + w.arguments(t.TypeArgs(), nil)
	case *types.Chan:
		return map[types.ChanDir]string{types.SendRecv: "chan ", types.SendOnly: "chan<- ", types.RecvOnly: "<-chan "}[t.Dir()] + w.typ(t.Elem())
	default:
		return types.TypeString(t, w.name)
	}
}

// arguments are those of an instance; a generic type as a receiver has its parameters there.
func (w *apiWriter) arguments(list *types.TypeList, params *types.TypeParamList) string {
	var parts []string
	for t := range list.Types() {
		parts = append(parts, w.typ(t))
	}
	if len(parts) == 0 {
		for p := range params.TypeParams() {
			parts = append(parts, p.Obj().Name())
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

func (w *apiWriter) qualified(obj *types.TypeName) string {
	if obj.Pkg() == nil {
		return obj.Name()
	}
	if name := w.name(obj.Pkg()); name != "" {
		return name + "." + obj.Name()
	}
	return obj.Name()
}

var versionName = regexp.MustCompile(`^v\d+((alpha|beta)\d+)?$`)

// name is what lines call a package: as everywhere here, corev1 for core/v1. If two would be called alike, the second
// has its whole path. The names are explained in lines of their own.
func (w *apiWriter) name(pkg *types.Package) string {
	if pkg == w.pkg {
		return ""
	}
	name := pkg.Name()
	if parts := strings.Split(pkg.Path(), "/"); len(parts) > 1 && versionName.MatchString(name) {
		name = parts[len(parts)-2] + name
	}
	if pkg.Path() == "k8s.io/client-go/tools/cache" {
		name = "toolscache" // controller-runtime's has the name
	}
	if path, taken := w.paths[name]; taken && path != pkg.Path() {
		return pkg.Path()
	}
	w.paths[name] = pkg.Path()
	return name
}
