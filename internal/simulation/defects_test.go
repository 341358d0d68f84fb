package simulation_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/internal/simulation"
)

const defects = "testdata/defects"

// planted are the patches, by name.
func planted(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(defects, "*.patch"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	all := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		all[strings.TrimSuffix(filepath.Base(file), ".patch")] = string(text)
	}
	return all
}

func TestTheTableOfPlantedDefectsNamesEachOfThemOnce(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(defects, "README.md"))
	require.NoError(t, err)
	rows := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if name, _, is := strings.Cut(strings.TrimPrefix(line, "| "), " | "); is && strings.Contains(name, "-") && name != "---" {
			require.False(t, rows[name], name)
			rows[name] = true
		}
	}
	for name := range planted(t) {
		require.True(t, rows[name], "the table lacks %s", name)
		delete(rows, name)
	}
	require.Empty(t, rows, "the table has these without a patch")
}

// A change of the library must not leave a patch behind that applies no more: make calibrate would find nothing.
func TestEachPlantedDefectAppliesToTheLibrary(t *testing.T) {
	t.Parallel()
	for name, text := range planted(t) {
		source, block := "", ""
		check := func() {
			if block != "" {
				require.Contains(t, source, block, name)
			}
			block = ""
		}
		for line := range strings.Lines(text) {
			switch {
			case strings.HasPrefix(line, "+++ b/"):
				content, err := os.ReadFile(filepath.Join("../..", strings.TrimSpace(strings.TrimPrefix(line, "+++ b/"))))
				require.NoError(t, err, name)
				source = string(content)
			case strings.HasPrefix(line, "diff "), strings.HasPrefix(line, "@@"), strings.HasPrefix(line, "--- "):
				check()
			case strings.HasPrefix(line, " "), strings.HasPrefix(line, "-"):
				block += line[1:]
			}
		}
		check()
	}
}

// A patch has after "Needs: " what a history must have for it to make a difference.
func TestAPlantedDefectNeedsOnlyWhatHistoriesHave(t *testing.T) {
	t.Parallel()
	for name, text := range planted(t) {
		if _, needs, found := strings.Cut(strings.SplitN(text, "\ndiff ", 2)[0], "Needs: "); found {
			_, err := simulation.RunSeeds(t.Context(), simulation.Seeds{Needs: strings.Split(strings.TrimSpace(needs), ",")})
			require.NoError(t, err, name)
		}
	}
}

// A unit test that is renamed or removed must not leave its name behind: nothing would find the defect.
func TestTheUnitTestsThatFindPlantedDefectsExist(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(defects, "README.md"))
	require.NoError(t, err)
	for _, named := range regexp.MustCompile(`(?m)^\| ([a-z-]+) .* ([a-z/]+)\.(Test\w+)[^|]*\|$`).FindAllStringSubmatch(string(text), -1) {
		files, err := filepath.Glob(filepath.Join("../..", named[2], "*_test.go"))
		require.NoError(t, err)
		found := slices.ContainsFunc(files, func(file string) bool {
			source, err := os.ReadFile(file)
			return err == nil && strings.Contains(string(source), "func "+named[3]+"(")
		})
		require.True(t, found, "%s: %s has no %s", named[1], named[2], named[3])
	}
}
