package main

import (
	"fmt"
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
		text, err := readText("--grammar-file", file)
		switch {
		case err != nil:
		case len(strings.TrimSpace(text)) == 0:
			err = fmt.Errorf("%s: the grammar is empty", file)
		case strings.ContainsRune(text, 0):
			err = fmt.Errorf("%s: holds NUL bytes; it is not a grammar", file)
		}
		return text, err
	case !c.IsSet("json-schema"):
		return "", nil
	}
	name := "--json-schema"
	if path, isFile := strings.CutPrefix(schema, "@"); isFile {
		text, err := readText("--json-schema", path)
		if err != nil {
			return "", err
		}
		name, schema = path, text
	}
	grammar, err := draft.Grammar(schema)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return grammar, nil
}
