package options

import (
	"flag"
	"strings"
)

// list is the value of a flag with texts between commas. A flag that is given several times adds to them; the first one replaces the
// default.
type list struct {
	into  *[]string
	given bool
}

// String implements flag.Value. Package flag calls it for the zero value too.
func (l *list) String() string {
	if l.into == nil {
		return ""
	}
	return strings.Join(*l.into, ",")
}

// Set implements flag.Value.
func (l *list) Set(value string) error {
	if !l.given {
		*l.into, l.given = nil, true
	}
	for text := range strings.SplitSeq(value, ",") {
		if text = strings.TrimSpace(text); text != "" {
			*l.into = append(*l.into, text)
		}
	}
	return nil
}

// another is the value of a flag that is another name of a flag.
type another struct {
	flag.Value

	of string
}

// String implements flag.Value. Package flag calls it for the zero value too.
func (a *another) String() string {
	if a.Value == nil {
		return ""
	}
	return a.Value.String()
}

// alias adds a flag that is another name of one in the set. what is the word for its value.
func alias(flags *flag.FlagSet, name, of, what string) {
	flags.Var(&another{Value: flags.Lookup(of).Value, of: of}, name, "the `"+what+"` of --"+of+", by another name")
}

// AliasOf returns the flag that a flag is another name of, and empty for one that is none.
func AliasOf(f *flag.Flag) string {
	if a, ok := f.Value.(*another); ok {
		return a.of
	}
	return ""
}
