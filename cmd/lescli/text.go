package main

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// textBytesMax bounds the texts that are read into memory: many times what anybody
// calibrates or measures on, and little beside a model. A device has no end.
const textBytesMax = 128 << 20

// readText reads the file that a flag gives, which is as messages name it.
func readText(flag, name string) (string, error) {
	if name == "" {
		return "", usagef("%s is empty", flag)
	}
	file, err := os.Open(name)
	if err != nil {
		return "", fmt.Errorf("%s: %w", flag, err)
	}
	defer file.Close()
	return readAllText(flag, file)
}

// readAllText reads a text to its end.
func readAllText(flag string, file *os.File) (string, error) {
	text, err := io.ReadAll(io.LimitReader(file, textBytesMax+1))
	if err == nil && len(text) > textBytesMax {
		err = fmt.Errorf("%s has more than %s, too many for a text", file.Name(), formatSize(textBytesMax))
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", flag, err)
	}
	return string(text), nil
}

// errEmptyPrompt is for models that begin no text by themselves.
var errEmptyPrompt = errors.New("the prompt is empty, and the model has no token to start a text with")
