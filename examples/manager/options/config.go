package options

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// Config names the file with the values of flags that the command line does not have.
type Config struct {
	// File is a YAML file with flags; empty: none.
	File string
	// Print prints all flags in place of running.
	Print bool
}

// Names of the flags that a file cannot have.
const (
	configFlag      = "config"
	printConfigFlag = "print-config"
)

// AddFlags implements Section.
func (c *Config) AddFlags(flags *flag.FlagSet) {
	flags.StringVar(&c.File, configFlag, c.File,
		"YAML `file` with flags: their names without dashes are the keys; a flag that is given comes first")
	flags.BoolVar(&c.Print, printConfigFlag, c.Print, "print all flags with their values as a file for --config, and end")
}

// Validate implements Section.
func (c *Config) Validate() error { return nil }

// ReadConfig sets the flags that are in a file and were not given. Call it after flags.Parse and before Validate; it can set flags of a
// program's own too. The error names the file, and for each wrong value its key and line.
func ReadConfig(flags *flag.FlagSet, file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("--%s: %w", configFlag, err)
	}
	values, err := readValues(data)
	if err != nil {
		return fmt.Errorf("--%s %s: %w", configFlag, file, err)
	}
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[canonical(f)] = true })
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if err := setFrom(flags, key, values[key], given[key]); err != nil {
			errs = append(errs, fmt.Errorf("--%s %s: %s%s: %w", configFlag, file, lineOf(data, key), key, err))
		}
	}
	return errors.Join(errs...)
}

// readValues returns the keys of a YAML document. A key that is there twice is an error.
func readValues(data []byte) (map[string]any, error) {
	text, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, err
	}
	var values map[string]any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&values); err != nil {
		return nil, errors.New("give names of flags with their values, such as worker-count: 20")
	}
	return values, nil
}

// canonical returns the name of a flag that a file has.
func canonical(f *flag.Flag) string {
	if of := AliasOf(f); of != "" {
		return of
	}
	return f.Name
}

// setFrom sets one flag, unless it was given. Its value is validated in any case.
func setFrom(flags *flag.FlagSet, key string, value any, given bool) error {
	f := flags.Lookup(key)
	switch {
	case f == nil:
		return errors.New("there is no such flag: see --help")
	case key == configFlag || key == printConfigFlag:
		return errors.New("this is for the command line only")
	case AliasOf(f) != "":
		return fmt.Errorf("write %s", AliasOf(f))
	}
	text, err := textOf(f, value)
	if err != nil || given {
		return err
	}
	return flags.Set(key, text)
}

// textOf returns a value of a file as a flag is given, if it has the type of the flag.
func textOf(f *flag.Flag, value any) (string, error) {
	var ok bool
	text := fmt.Sprint(value)
	want := "a text, in quotes if it looks like a number or a switch"
	switch typeOf(f).(type) {
	case bool:
		_, ok = value.(bool)
		want = "true or false"
	case int:
		_, err := strconv.Atoi(text)
		ok, want = isNumber(value) && err == nil, "a whole number"
	case float64:
		ok, want = isNumber(value), "a number"
	case time.Duration:
		_, err := time.ParseDuration(text)
		ok, want = isText(value) && err == nil, `a time such as "90s" or "5m"`
	case string:
		ok = isText(value)
	default:
		text, ok = joined(value)
		want = "a list of texts"
	}
	if !ok {
		shown, _ := json.Marshal(value) // it comes from JSON
		return "", fmt.Errorf("%s: give %s", shown, want)
	}
	return text, nil
}

// typeOf returns the value of a flag as its Go type, nil for a list.
func typeOf(f *flag.Flag) any {
	if getter, ok := f.Value.(flag.Getter); ok {
		return getter.Get()
	}
	return nil
}

func isNumber(value any) bool {
	_, ok := value.(json.Number)
	return ok
}

func isText(value any) bool {
	_, ok := value.(string)
	return ok
}

// joined returns a list with commas. A text with commas is a list too.
func joined(value any) (string, bool) {
	items, ok := value.([]any)
	if !ok {
		text, ok := value.(string)
		return text, ok
	}
	texts := make([]string, len(items))
	for i, item := range items {
		if texts[i], ok = item.(string); !ok {
			return "", false
		}
	}
	return strings.Join(texts, ","), true
}

// lineOf returns the line that a key is in, as text; it is empty if no line begins with the key.
func lineOf(data []byte, key string) string {
	begins := regexp.MustCompile(`^\s*["']?` + regexp.QuoteMeta(key) + `["']?\s*:`)
	for i, line := range bytes.Split(data, []byte("\n")) {
		if begins.Match(line) {
			return fmt.Sprintf("line %d: ", i+1)
		}
	}
	return ""
}

// PrintConfig prints the values of all flags of a set as a file for ReadConfig.
func PrintConfig(flags *flag.FlagSet, out io.Writer) error {
	values := map[string]any{}
	flags.VisitAll(func(f *flag.Flag) {
		if f.Name == configFlag || f.Name == printConfigFlag || AliasOf(f) != "" {
			return
		}
		switch value := typeOf(f).(type) {
		case nil:
			values[f.Name] = slices.DeleteFunc(strings.Split(f.Value.String(), ","), func(text string) bool { return text == "" })
		case time.Duration:
			values[f.Name] = value.String()
		default:
			values[f.Name] = value
		}
	})
	text, err := yaml.Marshal(values)
	if err != nil {
		return fmt.Errorf("--%s: %w", printConfigFlag, err)
	}
	_, err = out.Write(text)
	return err
}
