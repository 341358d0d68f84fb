package image_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// parse returns the stages of the Containerfile, and its arguments before the first one.
func parse(t *testing.T) ([]instructions.Stage, []instructions.ArgCommand) {
	t.Helper()
	file, err := os.Open(filepath.Join("..", "Containerfile"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	result, err := parser.Parse(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Warnings) > 0 {
		t.Errorf("warnings: %v", result.Warnings)
	}
	stages, args, err := instructions.Parse(result.AST, nil)
	if err != nil {
		t.Fatal(err)
	}
	return stages, args
}

func TestTheOnlyBaseIsGosImageOfAPinnedVersion(t *testing.T) {
	t.Parallel()
	stages, args := parse(t)
	if len(stages) != 2 || stages[0].BaseName != "${GO_IMAGE}" || stages[1].BaseName != "scratch" {
		t.Fatalf("stages: %+v", stages)
	}
	if len(args) != 1 || args[0].Args[0].Key != "GO_IMAGE" {
		t.Fatalf("arguments: %+v", args)
	}
	base := *args[0].Args[0].Value
	pinned := regexp.MustCompile(`^docker\.io/library/golang:(1\.\d+)\.\d+-bookworm$`).FindStringSubmatch(base)
	if pinned == nil {
		t.Fatalf("%s is not a version of Go with three numbers", base)
	}
	mod, err := os.ReadFile(filepath.Join("..", "..", "..", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(mod), "\ngo "+pinned[1]+".") {
		t.Errorf("go.mod requires another version of Go than %s", base)
	}
}

func TestTheImageHasAStaticProgramAndAUserWithoutRights(t *testing.T) {
	t.Parallel()
	stages, _ := parse(t)
	var user string
	var entry []string
	for _, command := range stages[1].Commands {
		switch c := command.(type) {
		case *instructions.UserCommand:
			user = c.User
		case *instructions.EntrypointCommand:
			entry = c.CmdLine
		case *instructions.CopyCommand:
			if c.From != stages[0].Name {
				t.Errorf("%s copies from %q", c, c.From)
			}
		default:
			t.Errorf("%s does not belong into the image", c)
		}
	}
	if user != "65532:65532" || strings.Join(entry, " ") != "/manager" {
		t.Errorf("user %q, entry point %v", user, entry)
	}
}
