package testenv

import "flag"

// parallel is how many tests run at a time by Main. They share no store, and each is idle for most of its time.
const parallel = "8"

// Main runs the tests of a package whose tests wait more than they compute, eight of those with t.Parallel at a time unless the flag
// -parallel is set. Call it in TestMain.
func Main(m interface{ Run() int }) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		_ = flag.Set("test.parallel", parallel) // without it two tests run at a time on two cores
	}
	m.Run()
}
