module example.com/published

go 1.26.0

require golang.org/x/mod v0.32.0
