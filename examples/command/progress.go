package command

import (
	"fmt"
	"io"
)

// toStart moves the cursor of a terminal to the start of its line and erases the line.
const toStart = "\r\x1b[K"

// columns are those of the narrowest terminal that is thought of: a wrapped line could not be replaced.
const columns = 80

// Progress prints lines that stay. On a terminal, the line below them is a status that changes. It is not safe for concurrent use.
type Progress struct {
	out    io.Writer
	live   bool // out is a terminal
	status string
}

// NewProgress returns a Progress that prints to a writer of Run, or to any other.
func NewProgress(out io.Writer) *Progress { return &Progress{out: out, live: terminal(out)} }

// Line prints a line that stays. Run reports a write that fails.
func (p *Progress) Line(text string) {
	if p.live {
		text = toStart + text + "\n" + p.status
	} else {
		text += "\n"
	}
	_, _ = fmt.Fprint(p.out, text)
}

// Show replaces the status on a terminal, as far as it fits. An empty text removes it.
func (p *Progress) Show(status string) {
	if status = status[:min(len(status), columns-1)]; p.live && status != p.status {
		p.status = status
		_, _ = fmt.Fprint(p.out, toStart+status)
	}
}
