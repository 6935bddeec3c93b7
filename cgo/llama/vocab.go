package llama

/*
#include "llama.h"
*/
import "C"

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
	"unsafe"
)

// Token is the id of a token.
type Token = int32

// VocabSize is the number of tokens, and of logits at each position.
func (m *Model) VocabSize() int { return int(C.llama_vocab_n_tokens(m.vocab)) }

// EndsGeneration says whether the token ends a text or a turn.
func (m *Model) EndsGeneration(token Token) bool {
	return bool(C.llama_vocab_is_eog(m.vocab, C.llama_token(token)))
}

// Tokenize turns text into tokens. With special, the tokens that the model
// wants at the ends are added, and special tokens written out in the text are
// recognised. Text that is not UTF-8 is refused: llama.cpp throws at some of it.
func (m *Model) Tokenize(text string, special bool) ([]Token, error) {
	if len(text) > math.MaxInt32 {
		return nil, fmt.Errorf("text of %d bytes is too long to tokenise", len(text))
	}
	if err := CheckUTF8(text); err != nil {
		return nil, err
	}
	tokens := make([]Token, len(text)/2+16)
	for range 2 {
		n := C.llama_tokenize(m.vocab, (*C.char)(unsafe.Pointer(unsafe.StringData(text))), C.int32_t(len(text)),
			(*C.llama_token)(unsafe.Pointer(&tokens[0])), C.int32_t(len(tokens)), C.bool(special), C.bool(special))
		if n >= 0 {
			return tokens[:n], nil
		}
		if n == math.MinInt32 {
			break
		}
		tokens = make([]Token, -n)
	}
	return nil, fmt.Errorf("text of %d bytes cannot be tokenised", len(text))
}

// CheckUTF8 names the first byte that is not UTF-8.
func CheckUTF8(text string) error {
	for at, r := range text {
		if _, size := utf8.DecodeRuneInString(text[at:]); r == utf8.RuneError && size == 1 {
			return fmt.Errorf("text is not UTF-8 at byte %d", at)
		}
	}
	return nil
}

// Piece is the text of one token; it may be part of a UTF-8 sequence. Special
// tokens have no text.
func (m *Model) Piece(token Token) []byte {
	buf := make([]byte, 64)
	for {
		n := C.llama_token_to_piece(m.vocab, C.llama_token(token),
			(*C.char)(unsafe.Pointer(&buf[0])), C.int32_t(len(buf)), 0, false)
		if n >= 0 {
			return buf[:n]
		}
		buf = make([]byte, -n)
	}
}

// Detokenize is the text of several tokens.
func (m *Model) Detokenize(tokens []Token) string {
	var text strings.Builder
	for _, token := range tokens {
		text.Write(m.Piece(token))
	}
	return text.String()
}

// EndsTexts says whether the model wants a token behind each text, which
// llama.cpp's perplexity cannot do with.
func (m *Model) EndsTexts() bool { return bool(C.llama_vocab_get_add_eos(m.vocab)) }
