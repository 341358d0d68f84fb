package main

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
)

// kind is what a mutant changes.
type kind string

const (
	kindCompare kind = "compare"
	kindLogic   kind = "logic"
	kindNegate  kind = "negate"
	kindReturn  kind = "return"
	kindCall    kind = "call"
)

func allKinds() []kind { return []kind{kindCompare, kindLogic, kindNegate, kindReturn, kindCall} }

func names(kinds []kind) []string {
	var out []string
	for _, k := range kinds {
		out = append(out, string(k))
	}
	return out
}

// span is a part of a file, in bytes.
type span struct{ start, end int }

// mutant is one change of a file.
type mutant struct {
	kind kind
	file string
	line int
	// change is the description for the report.
	change string
	// spans are the expressions that the mutant negates, or the one statement that it removes. Negation is enough: a !=
	// b is !(a == b), and a
	//
	// b is !(!a && !b).
	spans []span
}

// find returns the possible mutants of a file, in the order of its lines.
func find(name string, source []byte, kinds []kind) ([]mutant, error) {
	files := token.NewFileSet()
	tree, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	f := finder{files: files, name: name, source: source}
	ast.Inspect(tree, f.visit)
	f.found = slices.DeleteFunc(f.found, func(m mutant) bool { return !slices.Contains(kinds, m.kind) })
	slices.SortStableFunc(f.found, func(a, b mutant) int { return cmp.Compare(a.spans[0].start, b.spans[0].start) })
	return f.found, nil
}

// finder walks through a file.
type finder struct {
	files  *token.FileSet
	name   string
	source []byte
	found  []mutant
}

// visit handles a node, and reports whether to visit its children.
func (f *finder) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GenDecl:
		return n.Tok != token.CONST // a constant cannot check which mutant is active
	case *ast.BinaryExpr:
		f.binary(n)
	case *ast.IfStmt:
		f.condition(n.Cond)
	case *ast.ForStmt:
		if n.Cond != nil {
			f.condition(n.Cond)
		}
	case *ast.SwitchStmt:
		if n.Tag == nil {
			f.cases(n.Body)
		}
	case *ast.ReturnStmt:
		f.returned(n)
	case *ast.BlockStmt:
		f.calls(n.List)
	case *ast.CaseClause:
		f.calls(n.Body)
	case *ast.CommClause:
		f.calls(n.Body)
	}
	return true
}

func (f *finder) binary(n *ast.BinaryExpr) {
	opposite := map[token.Token]token.Token{
		token.EQL: token.NEQ, token.NEQ: token.EQL, token.LSS: token.GEQ, token.GEQ: token.LSS, token.GTR: token.LEQ, token.LEQ: token.GTR,
	}
	switch {
	case n.Op == token.LAND:
		f.add(kindLogic, n, "&& becomes || in "+f.text(n), n, n.X, n.Y)
	case n.Op == token.LOR:
		f.add(kindLogic, n, "|| becomes && in "+f.text(n), n, n.X, n.Y)
	case opposite[n.Op] != token.ILLEGAL:
		f.add(kindCompare, n, n.Op.String()+" becomes "+opposite[n.Op].String()+" in "+f.text(n), n)
	}
}

// condition negates a condition, unless another mutant does the same.
func (f *finder) condition(n ast.Expr) {
	if b, ok := ast.Unparen(n).(*ast.BinaryExpr); ok && b.Op != token.LAND && b.Op != token.LOR {
		return
	}
	f.add(kindNegate, n, "negated: "+f.text(n), n)
}

func (f *finder) cases(body *ast.BlockStmt) {
	for _, s := range body.List {
		if clause, ok := s.(*ast.CaseClause); ok {
			for _, n := range clause.List {
				f.condition(n)
			}
		}
	}
}

func (f *finder) returned(n *ast.ReturnStmt) {
	for _, result := range n.Results {
		if name, ok := result.(*ast.Ident); ok && (name.Name == "true" || name.Name == "false") {
			f.add(kindReturn, name, name.Name+" becomes its opposite in "+f.text(n), name)
		}
	}
}

func (f *finder) calls(statements []ast.Stmt) {
	for _, s := range statements {
		statement, ok := s.(*ast.ExprStmt)
		if !ok {
			continue
		}
		call, ok := statement.X.(*ast.CallExpr)
		if !ok {
			continue
		}
		if name, ok := call.Fun.(*ast.Ident); ok && name.Name == "panic" {
			continue // it may be the last statement of a function
		}
		f.add(kindCall, statement, "left out: "+f.text(statement), statement)
	}
}

func (f *finder) add(k kind, at ast.Node, change string, parts ...ast.Node) {
	m := mutant{kind: k, file: f.name, line: f.files.Position(at.Pos()).Line, change: change}
	for _, part := range parts {
		m.spans = append(m.spans, f.span(part))
	}
	f.found = append(f.found, m)
}

func (f *finder) span(n ast.Node) span {
	return span{f.files.Position(n.Pos()).Offset, f.files.Position(n.End()).Offset}
}

const maxText = 90

// text returns the source of a node in one line.
func (f *finder) text(n ast.Node) string {
	at := f.span(n)
	text := oneLine(string(f.source[at.start:at.end]))
	if runes := []rune(text); len(runes) > maxText {
		text = string(runes[:maxText]) + " ..."
	}
	return text
}
