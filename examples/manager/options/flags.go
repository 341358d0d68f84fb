package options

import (
	"errors"
	"flag"
	"strings"
)

// list is the value of a flag with texts between commas. A flag that is given several times adds to them.
type list []string

// String implements flag.Value.
func (l *list) String() string { return strings.Join(*l, ",") }

// Set implements flag.Value.
func (l *list) Set(value string) error {
	before := len(*l)
	for text := range strings.SplitSeq(value, ",") {
		if text = strings.TrimSpace(text); text != "" {
			*l = append(*l, text)
		}
	}
	if len(*l) == before && value != "" {
		return errors.New("give a list with commas")
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
	flags.Var(&another{Value: flags.Lookup(of).Value, of: of}, name, "`"+what+"`: another name of --"+of)
}

// AliasOf returns the flag that a flag is another name of, and empty for one that is none.
func AliasOf(f *flag.Flag) string {
	if a, ok := f.Value.(*another); ok {
		return a.of
	}
	return ""
}
