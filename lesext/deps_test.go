package lesext_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	functionLinesMax = 70
	fileLinesMax     = 400
)

// source is one parsed Go file.
type source struct {
	path string
	file *ast.File
	set  *token.FileSet
}

// parseAll parses all Go files below a folder, whatever system they are for.
func parseAll(t *testing.T, root string) (sources []source) {
	t.Helper()
	skipped := []string{"llama", "build", "node_modules", "testdata"} // and builds for other systems
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || filepath.Dir(path) == root && (slices.Contains(skipped, d.Name()) || strings.HasPrefix(d.Name(), "build-"))) {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(path) != ".go" {
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		sources = append(sources, source{path, file, set})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(sources) == 0 {
		t.Fatalf("no Go files below %s", root)
	}
	return sources
}

// TestNothingBelowLesextTouchesTheWorldBehindItsBack keeps cgo, the environment,
// printing and, outside of tests, clocks and chance out of the library.
func TestNothingBelowLesextTouchesTheWorldBehindItsBack(t *testing.T) {
	forbidden := map[string][]string{
		"C":            nil, // no name at all, the import itself
		"log":          nil,
		"log/slog":     nil,
		"os/exec":      nil,
		"math/rand":    nil,
		"math/rand/v2": nil,
		"os":           {"Getenv", "LookupEnv", "Environ", "Stdout", "Stderr", "Stdin", "Exit"},
		"fmt":          {"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"},
		"time":         {"Now", "Since", "Until", "Sleep", "After", "NewTimer", "NewTicker", "AfterFunc"},
	}
	for _, s := range parseAll(t, ".") {
		if strings.HasSuffix(s.path, "_test.go") {
			continue
		}
		packages := map[string]string{} // by the name used in the file
		for _, spec := range s.file.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			names, listed := forbidden[path]
			if listed && names == nil || strings.HasPrefix(path, "github.com/les-project/les/") && !strings.HasPrefix(path, "github.com/les-project/les/lesext/") {
				t.Errorf("%s imports %q", s.path, path)
			}
			name := path[strings.LastIndex(path, "/")+1:]
			if spec.Name != nil {
				name = spec.Name.Name
			}
			packages[name] = path
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			s.checkNode(t, n, packages, forbidden)
			return true
		})
	}
}

// checkNode reports the use of a forbidden name.
func (s source) checkNode(t *testing.T, n ast.Node, packages map[string]string, forbidden map[string][]string) {
	t.Helper()
	switch n := n.(type) {
	case *ast.SelectorExpr:
		if x, ok := n.X.(*ast.Ident); ok && slices.Contains(forbidden[packages[x.Name]], n.Sel.Name) {
			t.Errorf("%v: use of %s.%s", s.set.Position(n.Pos()), x.Name, n.Sel.Name)
		}
	case *ast.CallExpr:
		if f, ok := n.Fun.(*ast.Ident); ok && (f.Name == "print" || f.Name == "println") {
			t.Errorf("%v: call of %s", s.set.Position(n.Pos()), f.Name)
		}
	}
}

// TestFunctionsAndFilesStaySmall holds for the whole module.
func TestFunctionsAndFilesStaySmall(t *testing.T) {
	if _, err := os.Stat("../go.mod"); err != nil {
		t.Fatal(err)
	}
	for _, s := range parseAll(t, "..") {
		if ast.IsGenerated(s.file) {
			continue
		}
		if n := s.set.File(s.file.Pos()).LineCount(); n > fileLinesMax {
			t.Errorf("%s has %d lines, at most %d are allowed", s.path, n, fileLinesMax)
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			from, to := s.set.Position(f.Pos()), s.set.Position(f.End())
			if n := to.Line - from.Line + 1; n > functionLinesMax {
				t.Errorf("%v: %s has %d lines, at most %d are allowed", from, f.Name.Name, n, functionLinesMax)
			}
		}
	}
}

// TestFilesOfOtherLanguagesStaySmall holds for C, C++, Python and shell.
func TestFilesOfOtherLanguagesStaySmall(t *testing.T) {
	extensions := []string{".c", ".h", ".cpp", ".py", ".sh"}
	checked := 0
	for _, folder := range []string{"cgo", "scripts", "tools"} {
		err := filepath.WalkDir(filepath.Join("..", folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() && strings.HasPrefix(d.Name(), ".") && d.Name() != ".." {
				return filepath.SkipDir // such as a Python environment
			}
			if d.IsDir() || !slices.Contains(extensions, filepath.Ext(path)) {
				return nil
			}
			text, err := os.ReadFile(path)
			if n := strings.Count(string(text), "\n"); n > fileLinesMax {
				t.Errorf("%s has %d lines, at most %d are allowed", path, n, fileLinesMax)
			}
			checked++
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if checked < 20 {
		t.Errorf("only %d files were found", checked)
	}
}

// TestExportedNamesHaveComments reads the library only.
func TestExportedNamesHaveComments(t *testing.T) {
	for _, s := range parseAll(t, ".") {
		if strings.HasSuffix(s.path, "_test.go") {
			continue
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if ok && f.Name.IsExported() && f.Doc == nil && exportedReceiver(f) && f.Name.Name != "String" && f.Name.Name != "Error" {
				t.Errorf("%v: %s has no comment", s.set.Position(f.Pos()), f.Name.Name)
			}
		}
	}
}

// exportedReceiver reports whether a function is not a method of a type that
// only its package sees.
func exportedReceiver(f *ast.FuncDecl) bool {
	if f.Recv == nil {
		return true
	}
	of := f.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	name, ok := of.(*ast.Ident)
	return !ok || name.IsExported()
}
