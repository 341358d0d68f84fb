package userdata

import (
	"bytes"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"text/template/parse"
)

// A quoting formats a value of a template in the language of the file, as one value whatever its text.
type quoting func(value any) (string, error)

// quotings are the languages by the extension of a source. A shell script is not a template: it reads values from an environment file.
func quotings() map[string]quoting {
	return map[string]quoting{
		".env": ofText(quoteEnv), ".json": quoteJSON, ".toml": ofText(quoteTOML), ".pem": ofText(quotePEM),
		".conf": ofText(quotePlain), ".service": ofText(quotePlain), ".sh": nil,
	}
}

// ofText is the quoting of single texts.
func ofText(quote func(text string) (string, error)) quoting {
	return func(value any) (string, error) {
		text, err := textOf(value)
		if err != nil {
			return "", err
		}
		return quote(text)
	}
}

// source is a template or a script.
type source struct {
	script string             // the text of a shell script
	parsed *template.Template // nil for a script
}

// parseSource parses a source, and quotes every value that it prints, as html/template does.
func parseSource(name, text string) (source, error) {
	quote, known := quotings()[path.Ext(name)]
	switch {
	case !known:
		return source{}, fmt.Errorf("%s: the extension must be one of %s, since it selects how values are quoted",
			name, strings.Join(slices.Sorted(maps.Keys(quotings())), " "))
	case quote == nil:
		return source{script: text}, nil
	}
	functions := template.FuncMap{"quoted": quote, "base64": ofText(base64Of), "inc": func(i int) int { return i + 1 }}
	parsed, err := template.New(name).Option("missingkey=error").Funcs(functions).Parse(text)
	if err != nil {
		return source{}, err
	}
	for _, t := range parsed.Templates() {
		if t.Tree != nil {
			quoteAll(t.Root)
		}
	}
	return source{parsed: parsed}, nil
}

func (s source) render(v *values) (string, error) {
	if s.parsed == nil {
		return s.script, nil
	}
	var out bytes.Buffer
	if err := s.parsed.Execute(&out, v); err != nil {
		return "", err
	}
	return out.String(), nil
}

// quoteAll appends the quoting to every action that prints.
func quoteAll(node parse.Node) {
	switch n := node.(type) {
	case *parse.ListNode:
		if n != nil {
			for _, child := range n.Nodes {
				quoteAll(child)
			}
		}
	case *parse.ActionNode:
		if len(n.Pipe.Decl) == 0 {
			n.Pipe.Cmds = append(n.Pipe.Cmds, &parse.CommandNode{
				NodeType: parse.NodeCommand, Args: []parse.Node{parse.NewIdentifier("quoted").SetPos(n.Pos)},
			})
		}
	case *parse.IfNode:
		quoteBranch(&n.BranchNode)
	case *parse.RangeNode:
		quoteBranch(&n.BranchNode)
	case *parse.WithNode:
		quoteBranch(&n.BranchNode)
	}
}

func quoteBranch(n *parse.BranchNode) {
	quoteAll(n.List)
	quoteAll(n.ElseList)
}

var errUnquotable = errors.New("the value has characters that this file cannot hold")

// textOf returns the text of a single value.
func textOf(value any) (string, error) {
	switch v := value.(type) {
	case string:
		return v, nil
	case Architecture:
		return string(v), nil
	case Secret:
		return v.Reveal(), nil
	case bool:
		return strconv.FormatBool(v), nil
	case int:
		return strconv.Itoa(v), nil
	case fmt.Stringer: // addresses
		return v.String(), nil
	}
	return "", fmt.Errorf("a value of the type %T is not one text", value)
}

// quoteEnv formats a value for systemd's EnvironmentFile and for the shell, which read double quotes alike.
func quoteEnv(text string) (string, error) {
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "", errUnquotable
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`, "`", "\\`").Replace(text) + `"`, nil
}

// quoteJSON formats any value.
func quoteJSON(value any) (string, error) {
	if s, ok := value.(Secret); ok {
		value = s.Reveal()
	}
	text, err := encode(value, "")
	if err != nil {
		return "", fmt.Errorf("a value of the type %T cannot be written as JSON", value)
	}
	return strings.TrimSuffix(text, "\n"), nil
}

// quoteTOML formats a basic string of TOML, whose escapes are those of JSON.
func quoteTOML(text string) (string, error) {
	quoted, err := quoteJSON(text)
	return strings.ReplaceAll(quoted, "\x7f", `\u007f`), err
}

// plainForm matches names, numbers, addresses and URLs, which need no quotes in any language.
var plainForm = regexp.MustCompile(`^[a-zA-Z0-9._:/=,@+;-]*$`)

// quotePlain checks values for files without quotes.
func quotePlain(text string) (string, error) {
	if !plainForm.MatchString(text) {
		return "", errUnquotable
	}
	return text, nil
}

// quotePEM formats PEM blocks again, without surrounding text.
func quotePEM(text string) (string, error) {
	var out strings.Builder
	for rest := []byte(text); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return out.String(), nil
		}
		block.Headers = nil
		_, _ = out.Write(pem.EncodeToMemory(block))
	}
}

func base64Of(text string) (string, error) {
	return base64.StdEncoding.EncodeToString([]byte(text)), nil
}
