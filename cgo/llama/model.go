package llama

/*
#include "callback.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"runtime/cgo"
	"strconv"
	"unsafe"
)

// ErrCancelled is returned by LoadModel when the progress function asked to
// stop.
var ErrCancelled = errors.New("loading was cancelled")

// LoadMode says how weights get into memory.
type LoadMode int32

// Load modes in use: reading into buffers of the process, or mapping the file.
const (
	LoadRead LoadMode = C.LLAMA_LOAD_MODE_NONE
	LoadMap  LoadMode = C.LLAMA_LOAD_MODE_MMAP
)

// ModelParams choose how a model is loaded. The zero value reads all weights
// into plain CPU buffers.
type ModelParams struct {
	LoadMode     LoadMode
	Repack       bool // allow buffers that rearrange weights for faster kernels
	CheckTensors bool // validate the data of every block
	NoAlloc      bool // describe the model without loading weights
	VocabOnly    bool // load the vocabulary, and the metadata as text
	NextN        bool // load the NextN block too, which only drafting needs

	// Progress is called with 0 to 1 from the loading thread; returning false
	// stops the load. It may be nil.
	Progress func(progress float32) bool
}

// Model is a loaded model.
type Model struct {
	model *C.struct_llama_model
	vocab *C.struct_llama_vocab
	path  string
}

// LoadModel loads the file at path, and all parts if it is split.
func LoadModel(path string, params ModelParams) (*Model, error) {
	if err := checkReadable(path); err != nil {
		return nil, err
	}
	cparams := C.llama_model_default_params()
	cparams.load_mode = C.enum_llama_load_mode(params.LoadMode)
	cparams.use_extra_bufts = C.bool(params.Repack)
	cparams.check_tensors = C.bool(params.CheckTensors)
	cparams.vocab_only = C.bool(params.VocabOnly)
	cparams.no_alloc = C.bool(params.NoAlloc)
	cparams.load_mtp = C.bool(params.NextN)
	cparams.n_gpu_layers = 0
	cancelled := false
	if params.Progress != nil {
		handle := cgo.NewHandle(func(progress float32) bool {
			cancelled = !params.Progress(progress)
			return !cancelled
		})
		defer handle.Delete()
		C.les_llama_progress_set(&cparams, C.uintptr_t(handle))
	}
	var model *C.struct_llama_model
	var nameErr error
	reason := errorsDuring("llama.cpp gave no reason", func() {
		nameErr = withCString(path, func(cpath *C.char) { model = C.llama_model_load_from_file(cpath, cparams) })
	})
	switch {
	case nameErr != nil:
		return nil, nameErr
	case model == nil && cancelled:
		return nil, fmt.Errorf("%s: %w", path, ErrCancelled)
	case model == nil:
		return nil, fmt.Errorf("%s: cannot load: %s", path, reason)
	}
	return &Model{model: model, vocab: C.llama_model_get_vocab(model), path: path}, nil
}

// checkReadable opens and closes the file, so that the system's own reason
// reaches the user.
func checkReadable(path string) error {
	info, err := os.Stat(path) // before the open, which would wait at a pipe
	if err != nil {
		return err
	}
	if info.IsDir() {
		return fmt.Errorf("%s: is a directory, not a model file", path)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s: is not a regular file", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	return file.Close()
}

// Close frees the model. Contexts made from it must be closed before.
func (m *Model) Close() {
	if m.model != nil {
		C.llama_model_free(m.model)
		m.model = nil
	}
}

// Pointer is the llama_model, for packages with their own C side.
func (m *Model) Pointer() unsafe.Pointer { return unsafe.Pointer(m.model) }

// Path is the file the model was loaded from.
func (m *Model) Path() string { return m.path }

// Meta returns a scalar metadata value as text.
func (m *Model) Meta(key string) (string, bool) {
	var value string
	var ok bool
	err := withCString(key, func(ckey *C.char) {
		value, ok = readString(256, func(buf *C.char, size C.size_t) C.int32_t {
			return C.llama_model_meta_val_str(m.model, ckey, buf, size)
		})
	})
	return value, ok && err == nil
}

// Architecture is the name in general.architecture.
func (m *Model) Architecture() string {
	arch, _ := m.Meta("general.architecture")
	return arch
}

// Description is llama.cpp's short text on the model: name, size class, type.
func (m *Model) Description() string {
	text, _ := readString(256, func(buf *C.char, size C.size_t) C.int32_t {
		return C.llama_model_desc(m.model, buf, size)
	})
	return text
}

// Bytes is the size of all tensors.
func (m *Model) Bytes() int64 { return int64(C.llama_model_size(m.model)) }

// Parameters is the number of weights.
func (m *Model) Parameters() int64 { return int64(C.llama_model_n_params(m.model)) }

// Layers is the number of layers, NextN blocks not counted.
func (m *Model) Layers() int { return int(C.llama_model_n_layer(m.model)) }

// Embedding is the width of the residual stream.
func (m *Model) Embedding() int { return int(C.llama_model_n_embd(m.model)) }

// TrainedContext is the context length the model was trained for.
func (m *Model) TrainedContext() int { return int(C.llama_model_n_ctx_train(m.model)) }

// HasEncoder says whether prompts must go through an encoder first.
func (m *Model) HasEncoder() bool { return bool(C.llama_model_has_encoder(m.model)) }

// HasDecoder says whether the model can generate text.
func (m *Model) HasDecoder() bool { return bool(C.llama_model_has_decoder(m.model)) }

// DraftBlock is the most tokens that a block drafter gives at once, otherwise
// for models that are none.
func (m *Model) DraftBlock(otherwise int) int {
	text, ok := m.Meta("dflash.block_size")
	block, err := strconv.Atoi(text)
	if !ok || err != nil {
		return otherwise
	}
	if anchor, _ := m.Meta("dflash.sample_from_anchor"); anchor == "false" {
		block--
	}
	return block
}
