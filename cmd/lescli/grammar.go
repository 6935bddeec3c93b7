package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/les-project/les/cgo/draft"
	"github.com/urfave/cli/v2"
)

// readGrammar is the grammar of --grammar-file or --json-schema, empty without.
func readGrammar(c *cli.Context) (string, error) {
	file, schema := c.String("grammar-file"), c.String("json-schema")
	switch {
	case c.IsSet("grammar-file") && c.IsSet("json-schema"):
		return "", usagef("--grammar-file and --json-schema contradict")
	case c.IsSet("grammar-file"):
		text, err := os.ReadFile(file)
		if err == nil && len(strings.TrimSpace(string(text))) == 0 {
			err = fmt.Errorf("%s: the grammar is empty", file)
		}
		return string(text), err
	case !c.IsSet("json-schema"):
		return "", nil
	}
	name := "--json-schema"
	if path, isFile := strings.CutPrefix(schema, "@"); isFile {
		text, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		name, schema = path, string(text)
	}
	grammar, err := draft.Grammar(schema)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return grammar, nil
}
