package llama

/*
#include <stdlib.h>
#include "llama.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"strings"
	"unsafe"
)

// Message is one turn of a chat.
type Message struct {
	Role    string
	Content string
}

// ChatTemplate is the model's own template; false when it has none.
func (m *Model) ChatTemplate() (string, bool) {
	text := C.llama_model_chat_template(m.model, nil)
	if text == nil {
		return "", false
	}
	return C.GoString(text), true
}

// ApplyChat formats messages with the model's template and opens the
// assistant's turn.
func (m *Model) ApplyChat(messages []Message) (string, error) {
	template, ok := m.ChatTemplate()
	if !ok {
		return "", fmt.Errorf("%s: the model has no chat template", m.path)
	}
	text, err := ApplyChat(template, messages)
	if err != nil {
		return "", fmt.Errorf("%s: %w", m.path, err)
	}
	return text, nil
}

// ApplyChat formats messages with a template that llama.cpp knows, and opens the
// assistant's turn.
func ApplyChat(template string, messages []Message) (string, error) {
	if len(messages) == 0 {
		return "", errors.New("no chat messages")
	}
	chat := (*C.struct_llama_chat_message)(C.calloc(C.size_t(len(messages)), C.sizeof_struct_llama_chat_message))
	defer C.free(unsafe.Pointer(chat))
	list := unsafe.Slice(chat, len(messages))
	size := 256
	for _, message := range messages {
		if strings.IndexByte(message.Role+message.Content, 0) >= 0 {
			return "", fmt.Errorf("a chat message of %d bytes holds a NUL byte", len(message.Content))
		}
	}
	for i, message := range messages {
		list[i].role = C.CString(message.Role)
		defer C.free(unsafe.Pointer(list[i].role))
		list[i].content = C.CString(message.Content)
		defer C.free(unsafe.Pointer(list[i].content))
		size += 2 * (len(message.Role) + len(message.Content))
	}
	var text string
	var ok bool
	err := withCString(template, func(ctemplate *C.char) {
		text, ok = readString(size, func(buf *C.char, size C.size_t) C.int32_t {
			return C.llama_chat_apply_template(ctemplate, chat, C.size_t(len(messages)), true, buf, C.int32_t(size))
		})
	})
	if err != nil || !ok {
		return "", errors.New("llama.cpp does not know the model's chat template")
	}
	return text, nil
}
