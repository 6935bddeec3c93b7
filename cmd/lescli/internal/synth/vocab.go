package synth

// The vocabulary is a byte-level BPE that any text can be tokenised with: the
// 256 bytes, a few merges of frequent English pairs, made-up words to fill up
// the count, and the control tokens last.

// controls end the vocabulary: the end of a text is the last of all.
var controls = []string{"<|im_start|>", "<|im_end|>", "<|endoftext|>"}

// chatTemplate is ChatML.
const chatTemplate = "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + " +
	"message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}" +
	"{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"

// pairs become merges; each is one token after the bytes.
var pairs = []string{"t h", "h e", "i n", "e r", "a n", "r e", "o n", "Ġ t", "Ġ a", "e n"}

// byteTokens are the 256 bytes in the printable alphabet of byte-level BPE.
func byteTokens() []string {
	tokens := make([]string, 256)
	next := rune(256)
	for b := range 256 {
		r := rune(b)
		printable := (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE
		if !printable {
			r = next
			next++
		}
		tokens[b] = string(r)
	}
	return tokens
}

// madeUpWord is a distinct pronounceable word for each i, with a leading
// space. Digits in base 70 (14 consonants by 5 vowels) become syllables.
func madeUpWord(i int) string {
	const consonants, vowels = "bdfgklmnprstvz", "aeiou"
	word := []byte("xq") // no merge makes this, so that it never collides
	for n := i; ; n /= 70 {
		word = append(word, consonants[n%70/5], vowels[n%5])
		if n < 70 {
			return "Ġ" + string(word)
		}
	}
}

// vocabulary returns the tokens, their types and the merges.
func vocabulary(n int) (tokens []string, types []int32, merges []string) {
	const typeNormal, typeControl = 1, 3
	tokens = byteTokens()
	for _, pair := range pairs {
		left, right := splitPair(pair)
		tokens = append(tokens, left+right)
	}
	for i := 0; len(tokens) < n-len(controls); i++ {
		tokens = append(tokens, madeUpWord(i))
	}
	tokens = append(tokens, controls...)
	types = make([]int32, len(tokens))
	for i := range types {
		types[i] = typeNormal
		if i >= n-len(controls) {
			types[i] = typeControl
		}
	}
	return tokens, types, pairs
}

func splitPair(pair string) (left, right string) {
	for i := range pair {
		if pair[i] == ' ' {
			return pair[:i], pair[i+1:]
		}
	}
	panic("synth: merge without a space: " + pair)
}
