module github.com/les-project/les

go 1.24
