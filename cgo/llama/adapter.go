package llama

/*
#include "llama.h"
*/
import "C"

import "fmt"

// ApplyAdapter loads a LoRA adapter and applies it to the context at full
// strength, in place of those applied before. It is freed with the model.
func (c *Context) ApplyAdapter(model *Model, path string) error {
	if err := checkReadable(path); err != nil {
		return err
	}
	var adapter *C.struct_llama_adapter_lora
	reason := errorsDuring("llama.cpp gave no reason", func() {
		_ = withCString(path, func(cs *C.char) { adapter = C.llama_adapter_lora_init(model.model, cs) })
	})
	if adapter == nil {
		return fmt.Errorf("%s: cannot load the adapter: %s", path, reason)
	}
	scale := C.float(1)
	if C.llama_set_adapters_lora(c.lctx, &adapter, 1, &scale) != 0 {
		return fmt.Errorf("%s: the context does not take the adapter", path)
	}
	return nil
}
