package host

/*
#include "les-host.h"
*/
import "C"

import (
	"fmt"
	"runtime/cgo"
	"unsafe"

	"github.com/les-project/les/cgo/llama"
)

// The functions below are called by the hooks, on threads of the program.

//export lesHostLoadBegin
func lesHostLoadBegin(options *C.struct_les_options) (id C.uintptr_t) {
	guarded("beginning a load", func() error {
		m, err := newModel(optionsOf(options))
		if err == nil {
			id = C.uintptr_t(cgo.NewHandle(m))
		}
		return err
	})
	return id
}

//export lesHostLoadEnd
func lesHostLoadEnd(id C.uintptr_t, paths **C.char, n C.size_t, weights C.int64_t) C.int32_t {
	var names []string
	for _, path := range unsafe.Slice(paths, n) {
		names = append(names, C.GoString(path))
	}
	streamed := false
	ok := guarded("ending a load", func() (err error) {
		streamed, err = modelOf(id).loaded(names, int64(weights))
		return err
	})
	switch {
	case ok && streamed:
		return 1
	case !ok:
		forget(id)
		return -1
	}
	forget(id)
	return 0
}

//export lesHostContextBegin
func lesHostContextBegin(id C.uintptr_t, observed C.bool) {
	guarded("before a context", func() error {
		if observed {
			modelOf(id).streamed.KeepApart()
		}
		return nil
	})
}

//export lesHostContextMade
func lesHostContextMade(id C.uintptr_t, lctx *C.struct_llama_context) C.int32_t {
	return status(guarded("opening the engine", func() error { return modelOf(id).context(unsafe.Pointer(lctx)) }))
}

//export lesHostModelFree
func lesHostModelFree(id C.uintptr_t) { forget(id) }

//export lesHostPlan
func lesHostPlan(id C.uintptr_t, plan *C.struct_les_plan) C.int32_t {
	return status(guarded("plan", func() error {
		p, err := modelOf(id).plan()
		if err == nil {
			*plan = p
		}
		return err
	}))
}

//export lesHostStats
func lesHostStats(id C.uintptr_t, stats *C.struct_les_stats) C.int32_t {
	return status(guarded("stats", func() error {
		s, err := modelOf(id).stats()
		if err == nil {
			*stats = s
		}
		return err
	}))
}

//export lesHostSetBudget
func lesHostSetBudget(id C.uintptr_t, bytes C.int64_t) C.int32_t {
	return status(guarded("budget", func() error { return modelOf(id).setBudget(int64(bytes)) }))
}

//export lesHostSetSlots
func lesHostSetSlots(id C.uintptr_t, slots C.int32_t) C.int32_t {
	return status(guarded("slots", func() error { return modelOf(id).setSlots(int(slots)) }))
}

//export lesHostPressure
func lesHostPressure(id C.uintptr_t, level C.int32_t) C.int32_t {
	return status(guarded("memory pressure", func() error { return modelOf(id).pressure(int(level)) }))
}

//export lesHostContextLeaves
func lesHostContextLeaves(lctx C.uintptr_t) (number C.uintptr_t) {
	guarded("before the end of a context", func() error { number = C.uintptr_t(others.leaves(uintptr(lctx))); return nil })
	return number
}

//export lesHostContextLeft
func lesHostContextLeft(number C.uintptr_t) {
	guarded("the end of a context", func() error { others.left(uintptr(number)); return nil })
}

// A model that is not streamed is named by its address.

//export lesHostOtherLoaded
func lesHostOtherLoaded(model C.uintptr_t, path *C.char, weights C.int64_t) {
	guarded("another model", func() error { others.loaded(uintptr(model), C.GoString(path), int64(weights)); return nil })
}

//export lesHostOtherContext
func lesHostOtherContext(model C.uintptr_t, lctx *C.struct_llama_context) {
	guarded("a context of another model", func() error {
		others.context(uintptr(model), uintptr(unsafe.Pointer(lctx)), llama.BorrowContext(unsafe.Pointer(lctx)).Memory())
		return nil
	})
}

//export lesHostOtherFree
func lesHostOtherFree(model C.uintptr_t) {
	guarded("the end of another model", func() error { others.free(uintptr(model)); return nil })
}

func modelOf(id C.uintptr_t) *model { return cgo.Handle(id).Value().(*model) }

// forget closes a model, whose number is free from then on.
func forget(id C.uintptr_t) {
	guarded("closing", func() error {
		m := modelOf(id)
		cgo.Handle(id).Delete()
		return m.close()
	})
}

func status(ok bool) C.int32_t {
	if ok {
		return 0
	}
	return -1
}

// guarded runs fn and leaves its error, or its panic, where the hooks look.
func guarded(doing string, fn func() error) (ok bool) {
	defer func() {
		if r := recover(); r != nil {
			ok = false
			report(fmt.Errorf("%s: internal error: %v", doing, r))
		}
	}()
	if err := fn(); err != nil {
		report(err)
		return false
	}
	return true
}

func report(err error) {
	withCString(err.Error(), func(text *C.char) { C.les_host_fail(text) })
}
