package les

/*
#include "les.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"sync"

	"github.com/les-project/les/lesext/expert"
)

// loading admits one load at a time between Prepare and Seal: the offer to the
// loader is the process's.
var loading sync.Mutex

// ErrNothingStreamed is returned by Seal when the load took no expert tensors,
// as with a dense model.
var ErrNothingStreamed = errors.New("the model has no expert tensors to stream")

// Streamed is a model whose experts LES has taken, or may take.
type Streamed struct {
	model    *C.struct_les_model
	offered  bool
	geometry expert.Geometry
}

// Prepare makes the next llama model load leave its expert tensors to LES.
// Every Prepare must be followed by Seal or Close, also when the load fails;
// another Prepare waits until then.
func Prepare() (*Streamed, error) {
	loading.Lock()
	s := &Streamed{model: C.les_model_new(), offered: true}
	if s.model == nil {
		loading.Unlock()
		return nil, errors.New("no memory for the description of a model")
	}
	if C.les_model_set_pending(s.model) != 0 {
		err := s.takeError("offering the model to the loader")
		s.offered = false
		loading.Unlock()
		s.Close()
		return nil, err
	}
	return s, nil
}

// withdraw ends the offer to the loader.
func (s *Streamed) withdraw() {
	if s.offered {
		C.les_model_set_pending(nil)
		s.offered = false
		loading.Unlock()
	}
}

// Seal ends the load: files are the paths of the model's parts in order, used
// is the number of experts a token is routed to in one layer.
func (s *Streamed) Seal(files []string, used int) error {
	n := int(C.les_model_seal(s.model))
	s.withdraw()
	if n < 0 {
		return s.takeError("sealing the model")
	}
	if err := s.openFiles(files); err != nil {
		return err
	}
	if n == 0 {
		return ErrNothingStreamed
	}
	s.geometry = expert.Geometry{Files: files, Align: C.LES_ALIGN, SlotBytes: int64(C.les_model_slot_bytes(s.model))}
	for i := range n {
		s.geometry.Layers = append(s.geometry.Layers, s.layer(i, used))
	}
	if err := s.geometry.Validate(); err != nil {
		return fmt.Errorf("layout of the experts: %w", err)
	}
	return nil
}

// openFiles lets C read rows of the tensors whose rows are looked up. They are
// part of the model from here on, also if nothing else of it is streamed.
func (s *Streamed) openFiles(files []string) error {
	for i, path := range files {
		var status C.int32_t
		withCString(path, func(path *C.char) { status = C.les_model_set_file(s.model, C.int32_t(i), path) })
		if status != 0 {
			return s.takeError("opening the files that rows are read from")
		}
	}
	return nil
}

func (s *Streamed) layer(i, used int) expert.Layer {
	info := C.les_model_layer(s.model, C.int32_t(i))
	layer := expert.Layer{Block: int(info.block), Experts: int(info.n_expert), Used: min(used, int(info.n_expert))}
	for _, span := range info.spans[:info.n_spans] {
		layer.Spans = append(layer.Spans, expert.Span{
			File: int(span.file), Off: int64(span.off), Stride: int64(span.stride),
			Bytes: int64(span.n_bytes), SlotOff: int64(span.slot_off),
		})
	}
	return layer
}

// KeepApart makes graphs of a node for each product of a layer, so that an observer
// sees what goes into it. It must be called after Seal and before a context is
// made.
func (s *Streamed) KeepApart() { C.les_model_set_apart(s.model, true) }

// Geometry says where the experts lie. It is empty before Seal.
func (s *Streamed) Geometry() expert.Geometry { return s.geometry }

// Close gives up what Prepare made. The memory itself goes with the model, or
// with the engine if that is closed later. Close is safe to call twice.
func (s *Streamed) Close() {
	s.withdraw()
	if s.model != nil {
		C.les_model_unref(s.model)
		s.model = nil
	}
}

// takeError returns the C side's error.
func (s *Streamed) takeError(doing string) error {
	text := C.GoString(C.les_model_take_error(s.model))
	if text == "" {
		text = "no reason given"
	}
	return fmt.Errorf("%s: %s", doing, text)
}
