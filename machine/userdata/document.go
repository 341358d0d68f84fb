package userdata

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
)

// Document is first-boot data. Its text form does not show the content, which is secret. It is immutable and safe for concurrent use.
type Document struct {
	format  Format
	content Secret
	// compressed: the content is in gzip.
	compressed bool
}

// Format returns the format of the document.
func (d Document) Format() Format { return d.format }

// Bytes returns a copy of the document.
func (d Document) Bytes() []byte { return []byte(d.content.Reveal()) }

// Size returns the number of bytes.
func (d Document) Size() int { return len(d.content.Reveal()) }

// String returns the format and the size.
func (d Document) String() string { return fmt.Sprintf("%s document of %d bytes", d.format, d.Size()) }

func (b boot) document(format Format) (Document, error) {
	var text string
	var err error
	switch format {
	case CloudConfig:
		text, err = b.cloudConfig()
	case Ignition:
		text, err = b.ignition()
	case Script:
		text = b.script()
	}
	return Document{format: format, content: NewSecret(text)}, err
}

func compressed(text string) []byte {
	var out bytes.Buffer
	writer, _ := gzip.NewWriterLevel(&out, gzip.BestCompression) // the level is valid, and a buffer takes everything
	_, _ = writer.Write([]byte(text))
	_ = writer.Close()
	return out.Bytes()
}

type cloudConfig struct {
	HostName string `json:"hostname,omitempty"`
	// WithDomain makes a name with a domain the host name on every system; Ubuntu would otherwise use the first label alone.
	WithDomain bool        `json:"prefer_fqdn_over_hostname,omitempty"`
	Keys       []string    `json:"ssh_authorized_keys,omitempty"`
	Password   bool        `json:"ssh_pwauth"`
	Files      []cloudFile `json:"write_files"`
	Commands   [][]string  `json:"runcmd"`
}

type cloudFile struct {
	Path        string `json:"path"`
	Owner       string `json:"owner"`
	Permissions string `json:"permissions"`
	Encoding    string `json:"encoding,omitempty"`
	Content     string `json:"content"`
}

const cloudConfigHeader = "#cloud-config\n"

func (b boot) cloudConfig() (string, error) {
	doc := cloudConfig{HostName: b.hostName, WithDomain: strings.Contains(b.hostName, "."), Keys: b.keys, Commands: b.commands()}
	for _, f := range b.allFiles() {
		made := cloudFile{Path: f.Path, Owner: "root:root", Permissions: fileMode(f.Mode), Content: f.Content.Reveal()}
		if !readable(made.Content) {
			made.Encoding, made.Content = "b64", base64.StdEncoding.EncodeToString([]byte(made.Content))
		}
		doc.Files = append(doc.Files, made)
	}
	text, err := encode(doc, " ")
	return cloudConfigHeader + text, err
}

// readable reports whether JSON and every YAML reader read a text alike: YAML 1.1 rejects some characters that JSON allows.
func readable(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && r != '\t' && (r < ' ' || r > '~') })
}

// encode writes JSON without the escapes for web pages.
func encode(value any, indent string) (string, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	err := encoder.Encode(value)
	return out.String(), err
}

const unitFolder = "/etc/systemd/system/"

// allFiles returns the files, including those of the units.
func (b boot) allFiles() []File {
	all := append([]File(nil), b.files...)
	for _, u := range b.units {
		if !u.Mask {
			all = put(all, File{Path: unitFolder + u.Name, Mode: 0o644, Content: NewSecret(u.Contents)})
		}
	}
	return all
}

// commands returns the commands to run after the files are written. They wait for nothing, since units may be ordered after cloud-init.
func (b boot) commands() [][]string {
	commands := [][]string{{"systemctl", "daemon-reload"}}
	for _, u := range b.units {
		switch {
		case u.Mask:
			commands = append(commands, []string{"systemctl", "mask", "--now", u.Name})
		case u.Enabled:
			commands = append(commands, []string{"systemctl", "enable", "--now", "--no-block", u.Name})
		}
	}
	return commands
}

// script renders an equivalent shell script. Contents are base64, and the few other words are quoted.
func (b boot) script() string {
	var out strings.Builder
	out.WriteString(scriptHeader)
	for _, f := range b.allFiles() {
		fmt.Fprintf(&out, "put %s %s <<'EOF'\n%s\nEOF\n", fileMode(f.Mode), quoteShell(f.Path),
			base64.StdEncoding.EncodeToString([]byte(f.Content.Reveal())))
	}
	for _, command := range b.commands() {
		for i, word := range command {
			command[i] = quoteShell(word)
		}
		out.WriteString(strings.Join(command, " ") + "\n")
	}
	return out.String()
}

const scriptHeader = `#!/bin/bash
# The second stage of a first boot: writes files and starts units.
set -euo pipefail
umask 022

# put MODE PATH writes standard input, which is base64, to a file.
put() {
  mkdir -p "$(dirname "$2")"
  (umask 077 && base64 --decode >"$2.new")
  chmod "$1" "$2.new"
  mv "$2.new" "$2"
}

`

// quoteShell quotes any text as one word.
func quoteShell(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
