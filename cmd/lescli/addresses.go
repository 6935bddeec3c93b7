package main

// The C file beside this one is compiled because of it.

/*
#cgo CFLAGS: -I${SRCDIR}/../../cgo/les/csrc
#cgo LDFLAGS: -L${SRCDIR}/../../build/bin -lggml-base
*/
import "C"
