package draft

/*
#include "les-draft.h"
*/
import "C"

import "errors"

// Grammar is the grammar of a JSON schema, as llama.cpp's programs make it.
func Grammar(schema string) (grammar string, err error) {
	var reason [512]C.char
	lent := withCString(schema, func(text *C.char) {
		made := C.les_draft_grammar(text, &reason[0], C.size_t(len(reason)))
		if made == nil {
			err = errors.New(C.GoString(&reason[0]))
			return
		}
		grammar = C.GoString(made)
		C.les_draft_free(made)
	})
	return grammar, errors.Join(lent, err)
}
