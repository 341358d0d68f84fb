package testenv

import (
	"flag"
	"os"
)

// parallel is how many tests run at a time by Main. They share no store, and each is idle for most of its time.
const parallel = "8"

// Main runs the tests of a package whose tests wait more than they compute, eight of those with t.Parallel at a time unless the flag
// -parallel is set, and ends the process. Call it in TestMain.
func Main(m interface{ Run() int }) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		if err := flag.Set("test.parallel", parallel); err != nil {
			_, _ = os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(2)
		}
	}
	os.Exit(m.Run())
}
