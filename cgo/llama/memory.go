package llama

/*
#include "memory.h"
*/
import "C"

// Memory is what a context and its model take of the processor's memory, or would
// take for a model that was loaded with NoAlloc.
type Memory struct {
	ModelBytes   int64 // weights
	ContextBytes int64 // KV cache and recurrent state
	ComputeBytes int64 // scratch buffers of the graph, and its nodes
}

// Memory returns llama.cpp's own figures.
func (c *Context) Memory() Memory {
	sum := C.les_llama_memory_measure(c.lctx)
	return Memory{
		ModelBytes:   int64(sum.model_bytes),
		ContextBytes: int64(sum.context_bytes),
		ComputeBytes: int64(sum.compute_bytes),
	}
}
