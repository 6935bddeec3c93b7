module github.com/les-project/les

go 1.25

require golang.org/x/sys v0.40.0
