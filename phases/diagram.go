package phases

import (
	"fmt"
	"io"
	"strings"
)

// WriteMermaid writes the state diagram of a table for a life: each change of phase is an arrow with what brought it about. It is
// not drawn by hand: every order in which the events can happen is walked. Output is sorted and stable. The only errors are
// those of w.
func (t *Table[F]) WriteMermaid(w io.Writer, life Life[F]) error {
	var out strings.Builder
	fmt.Fprintf(&out, "stateDiagram-v2\n    [*] --> %s\n", t.Compute(life.Start).Phase)
	for _, a := range t.arrows(life) {
		to := a.To
		if to == "" {
			to = "[*]"
		}
		fmt.Fprintf(&out, "    %s --> %s: %s\n", a.From, to, a.Name)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// WriteDOT writes the same diagram for Graphviz.
func (t *Table[F]) WriteDOT(w io.Writer, life Life[F]) error {
	var out strings.Builder
	fmt.Fprintf(&out, "digraph phases {\n    start [shape=point]\n    end [shape=doublecircle label=\"\"]\n    start -> %q\n",
		string(t.Compute(life.Start).Phase))
	for _, a := range t.arrows(life) {
		to := "end"
		if a.To != "" {
			to = fmt.Sprintf("%q", a.To)
		}
		fmt.Fprintf(&out, "    %q -> %s [label=%q]\n", a.From, to, a.Name)
	}
	out.WriteString("}\n")
	_, err := io.WriteString(w, out.String())
	return err
}
