package outfile

import (
	"os"
	"path/filepath"
	"strings"
)

// partSuffix ends the name of what is not whole: NAME.NUMBER.part.
const partSuffix = ".part"

// createPart makes a file that is to become the one at path, in the same
// directory. Its lock says that somebody is writing it, and ends with the process.
func createPart(path string) (*os.File, error) {
	for {
		file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*"+partSuffix)
		if err != nil {
			return nil, err
		}
		lock(file)
		if isNamed(file) {
			return file, nil
		}
		file.Close() // another program's sweep came before the lock
	}
}

// sweep removes what was left of the file at path by programs that were killed.
// What another program is writing is locked and stays, and so does what cannot be
// removed: it takes room, no more.
func sweep(path string) {
	dir, prefix := filepath.Dir(path), filepath.Base(path)+"."
	list, _ := os.ReadDir(dir) // a directory that cannot be read is not swept
	for _, entry := range list {
		number, named := strings.CutPrefix(entry.Name(), prefix)
		number, ended := strings.CutSuffix(number, partSuffix)
		if named && ended && isNumber(number) && entry.Type().IsRegular() {
			sweepOne(filepath.Join(dir, entry.Name()))
		}
	}
}

// isNamed says whether the name of an open file is still its own.
func isNamed(file *os.File) bool {
	open, err := file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(file.Name())
	return err == nil && os.SameFile(open, named)
}

// isNumber says whether a text is what os.CreateTemp puts into a name.
func isNumber(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}
